// SPDX-License-Identifier: Apache-2.0
// Reads Slurm's lists of hosts. All functions are pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep {

/// Splits a list at the commas or spaces outside brackets.
[[nodiscard]] std::vector<std::string_view> split_node_list(std::string_view list);

/// Returns the hosts of a list such as "node[01-03,7]-ib,login" in order, as `scontrol show hostnames` does: a name may
/// have several brackets, anywhere, and numbers keep their leading zeros. Returns at most `most` hosts; none if `list`
/// is not such a list.
[[nodiscard]] std::vector<std::string> hosts_of_node_list(std::string_view list, std::size_t most = 1U << 16U);

}  // namespace lockstep

#pragma GCC visibility pop
