// SPDX-License-Identifier: Apache-2.0
// The CPUs near a rank's GPU: the host's part of a step, copies above all, is slower from another NUMA node.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::comm {

/// Returns the CPUs of a kernel's list such as "0-3,8", in order; empty: it is none. It is a pure function.
[[nodiscard]] std::vector<int> cpus_of_list(std::string_view list);

struct CpuChoice {
  std::vector<int> allowed;  ///< by affinity
  std::vector<int> online;   ///< all of the host's
  std::vector<int> near;     ///< the GPU's
};

/// Returns the CPUs to which the rank should be bound. The result is empty if the rank should stay as it is: all of its
/// CPUs are near, none is, or numactl, Slurm or taskset has bound it before. It is a pure function.
[[nodiscard]] std::vector<int> cpus_to_keep_to(const CpuChoice& choice);

/// Binds this process to the CPUs near the GPU with this PCI address ("0000:3b:00.0"): all of its threads and those to
/// come, whose memory then lies there too. Reads /sys below `root`. Returns: the number of CPUs; 0: it was not bound.
int keep_near(const std::string& pci_address, const std::filesystem::path& root = "/");

}  // namespace lockstep::comm
