// SPDX-License-Identifier: Apache-2.0
// Reads the list notations of Slurm's variables. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/base/rank.h"
#include "lockstep/comm/discovery.h"

namespace lockstep::comm {

/// Returns the hosts of a list such as "node[01-03,7]-ib,login" in order, as `scontrol show hostnames` does: brackets
/// anywhere in a name and several of them, numbers with their zeros. Makes at most `most` hosts.
/// Throws: UsageError naming `variable` if it is no such list.
[[nodiscard]] std::vector<std::string> expand_node_list(const std::string& list, const char* variable,
                                                        std::size_t most = 1U << 16U);

/// Returns a node's part of "2(x3),1", "1" for node 3; any other text as it is.
[[nodiscard]] std::string tasks_of_node(const std::string& list, std::int64_t node);

/// Returns a note for users who type into a shell of `srun --pty`: before the ranks wait for each other, they should
/// know that the shell is one task of several, and that a program it starts is one rank. Empty if this is no such
/// shell.
[[nodiscard]] std::string note_on_shell(const Environment& environment, const RankInfo& info);

}  // namespace lockstep::comm
