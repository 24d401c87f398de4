// SPDX-License-Identifier: Apache-2.0
// The limits of this process's control groups (cgroup versions 1 and 2), and the CPUs that it may use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#pragma GCC visibility push(default)

namespace lockstep {

/// The limits of a control group; none: no limit, or unknown.
struct GroupLimits {
  std::optional<double> cores;          ///< limit on CPU time, in cores
  std::optional<std::uint64_t> memory;  ///< limit on memory, in bytes
  std::uint64_t memory_used = 0;        ///< bytes in use by the group that has the limit, excluding cached files
  std::optional<std::uint64_t> tasks;   ///< limit on processes and threads
  std::uint64_t tasks_used = 0;         ///< number of processes and threads
};

/// Reads /proc/self/cgroup and /sys/fs/cgroup below `root`. A group is bound by its own limits and by the limits of all
/// groups above it; the tightest limits apply.
[[nodiscard]] GroupLimits read_control_group(const std::filesystem::path& root = "/");

/// Returns the number of CPUs in this thread's affinity mask, which taskset, cpusets and Slurm restrict.
[[nodiscard]] int affinity_cpus();

/// Returns the number of CPUs that this process can keep busy: the CPUs in its affinity mask, limited by a control
/// group's quota rounded down; at least 1.
[[nodiscard]] int usable_cpus(const std::filesystem::path& root = "/");

}  // namespace lockstep

#pragma GCC visibility pop
