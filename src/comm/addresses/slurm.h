// SPDX-License-Identifier: Apache-2.0
// What Slurm's variables say in a notation of its own. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/base/rank.h"
#include "lockstep/comm/discovery.h"

namespace lockstep::comm {

/// Returns the hosts of a list such as "node[01-03,7]-ib,login" in order, as `scontrol show hostnames` does: brackets
/// anywhere in a name and several of them, numbers with their zeros. At most `most` hosts are made.
/// Throws: UsageError naming `variable` where it is no such list.
[[nodiscard]] std::vector<std::string> expand_node_list(const std::string& list, const char* variable,
                                                        std::size_t most = 1U << 16U);

/// Returns the part of "2(x3),1" that is of a node, "1" of node 3; what is no such list, as it is.
[[nodiscard]] std::string tasks_of_node(const std::string& list, std::int64_t node);

/// Returns what whoever types into a shell of `srun --pty` should know before the ranks wait for each other: the shell
/// is one task of several, and a program that it starts is one rank. Empty where this is no such shell.
[[nodiscard]] std::string note_on_shell(const Environment& environment, const RankInfo& info);

}  // namespace lockstep::comm
