// SPDX-License-Identifier: Apache-2.0
// What the control groups of this process allow, in version 1 and 2, and the CPUs that are left to it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#pragma GCC visibility push(default)

namespace lockstep {

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

/// Returns how many CPUs the affinity of this thread names: taskset, cpusets and Slurm take some away.
[[nodiscard]] int affinity_cpus();

/// Returns how many CPUs this process can keep busy: those of its affinity, and no more than a control group's quota
/// pays for, rounded down; at least 1.
[[nodiscard]] int usable_cpus(const std::filesystem::path& root = "/");

}  // namespace lockstep

#pragma GCC visibility pop
