// SPDX-License-Identifier: Apache-2.0
// Binds a rank to the CPUs near its GPU: the host's part of a step, especially copies, is slower on another NUMA node.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::comm {

/// Returns the CPUs of a kernel list such as "0-3,8", in order; empty if it is not a list. It is a pure function.
[[nodiscard]] std::vector<int> cpus_of_list(std::string_view list);

struct CpuChoice {
  std::vector<int> allowed;  ///< CPUs in this process's affinity
  std::vector<int> online;   ///< all CPUs of the host
  std::vector<int> near;     ///< CPUs near the GPU
};

/// Returns the CPUs to which the rank should be bound. The result is empty if its binding should not change: all of its
/// CPUs are near, none is, or numactl, Slurm or taskset has already bound it. It is a pure function.
[[nodiscard]] std::vector<int> cpus_to_keep_to(const CpuChoice& choice);

/// Binds this process, with all its current and later threads, to the CPUs near the GPU with this PCI address
/// ("0000:3b:00.0"). The threads' memory is then also near the GPU. Reads /sys below `root`. Returns: the number of
/// CPUs; 0 if the process was not bound.
int keep_near(const std::string& pci_address, const std::filesystem::path& root = "/");

}  // namespace lockstep::comm
