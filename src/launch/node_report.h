// SPDX-License-Identifier: Apache-2.0
// How the ranks of a node ended in a round: for the coordinator, and in words for the user.
#pragma once

#include <string>
#include <vector>

#include "launch/nodes/membership.h"
#include "launch/nodes/messages.h"
#include "launch/output/log_folder.h"
#include "launch/worker_group.h"

namespace lockstep::launch {

/// One round of this node, and what came of it. Lifetime: what it refers to outlives it.
struct RoundFacts {
  const Round& round;
  const WorkerGroupResult& result;
  const LogFolder& logs;
  int attempt = 0;          ///< the number in the log folder
  const std::string& path;  ///< of the program
};

/// What the coordinator has to know.
[[nodiscard]] NodeEnd end_of_round(const RoundFacts& facts);

/// "cannot execute './train' (Exec format error)".
[[nodiscard]] std::string start_error_text(const RoundFacts& facts);

/// Says why the ranks start again, before they do.
void warn_of_failure(const Order& order, const RoundFacts& facts);

/// The first failure is a rank's of another node, whose agent has its output.
[[nodiscard]] bool is_of_other_node(const Order& order, const RoundFacts& facts);

/// The stacks of the rank that the order blames, where this agent has taken them, a line each.
[[nodiscard]] std::vector<std::string> stacks_for(const Order& order, const RoundFacts& facts);

/// An error in the call or the input of a job on one node, which had begun no step. Every rank meets it, and which of
/// them is first says nothing.
[[nodiscard]] bool is_error_of_start(const Order& order, const RoundFacts& facts);

/// Prints such an error as a single process does, unless rank 0 has: its stderr is shown as it is.
void print_error_of_start(const Order& order, const RoundFacts& facts);

/// Prints who is to blame, as the job's last word. `with_reason`: a rank's failure could have been followed by a
/// restart.
void print_blame(const Order& order, const RoundFacts& facts, bool with_reason);
/// `stacks`: of the rank that is late, a line each.
void print_lost(const FailureRecord& lost, const std::vector<std::string>& stacks = {});

}  // namespace lockstep::launch
