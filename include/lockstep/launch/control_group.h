// SPDX-License-Identifier: Apache-2.0
// What the control groups of this process allow, in version 1 and 2.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#pragma GCC visibility push(default)

namespace lockstep::launch {

/// None: no limit, or unknown.
struct GroupLimits {
  std::optional<double> cores;          ///< share of time, in cores
  std::optional<std::uint64_t> memory;  ///< bytes
  std::uint64_t memory_used = 0;        ///< bytes of the group that has the limit, without cached files
  std::optional<std::uint64_t> tasks;   ///< processes and threads
  std::uint64_t tasks_used = 0;         ///< processes and threads that there are
};

/// Reads /proc/self/cgroup and /sys/fs/cgroup below `root`. A group is bound by its own limits and those of all above
/// it; the tightest count.
[[nodiscard]] GroupLimits read_control_group(const std::filesystem::path& root = "/");

}  // namespace lockstep::launch

#pragma GCC visibility pop
