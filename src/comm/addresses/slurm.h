// SPDX-License-Identifier: Apache-2.0
// Reads the list notations of Slurm's variables. All functions are pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/base/rank.h"
#include "lockstep/comm/discovery.h"

namespace lockstep::comm {

/// Returns the hosts of a list such as "node[01-03,7]-ib,login" in order, as `scontrol show hostnames` does: a name may
/// have several brackets, anywhere, and numbers keep their leading zeros. Returns at most `most` hosts.
/// Throws: UsageError naming `variable` if `list` is not such a list.
[[nodiscard]] std::vector<std::string> expand_node_list(const std::string& list, const char* variable,
                                                        std::size_t most = 1U << 16U);

/// Returns a node's entry in a list such as "2(x3),1", here "1" for node 3; any other text is returned unchanged.
[[nodiscard]] std::string tasks_of_node(const std::string& list, std::int64_t node);

/// Returns a note for users who start a program from a shell of `srun --pty`: the shell is one task of several, so the
/// program is only one rank and waits for the others. Empty if this is not such a shell.
[[nodiscard]] std::string note_on_shell(const Environment& environment, const RankInfo& info);

}  // namespace lockstep::comm
