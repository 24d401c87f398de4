// SPDX-License-Identifier: Apache-2.0
// What the GPUs of this host are doing, by NVIDIA's management library, which is looked for when asked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep {

/// A process that computes on a GPU.
struct GpuProcess {
  int pid = 0;
  std::uint64_t bytes = 0;  ///< of the GPU's memory; 0 where the driver does not tell
  std::optional<int> rank;  ///< RANK of its environment, where that may be read
};

/// One GPU. What the driver does not tell is none.
struct GpuState {
  int index = 0;  ///< as nvidia-smi counts, whatever CUDA_VISIBLE_DEVICES says
  std::string name;
  std::optional<unsigned> percent = {};  ///< of the time in which some kernel ran
  std::uint64_t used_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::optional<unsigned> celsius = {};
  std::optional<double> watts = {};
  std::optional<unsigned> megahertz = {};  ///< of the multiprocessors
  std::vector<GpuProcess> processes = {};
};

struct GpuReport {
  std::vector<GpuState> gpus = {};
  std::string driver = {};   ///< version
  std::string problem = {};  ///< why no GPU is listed; empty where some are
};

/// Reads all GPUs of the host. `library`: to load. Never throws for want of a GPU or a driver.
/// Cost: some milliseconds a GPU.
[[nodiscard]] GpuReport read_gpus(const std::string& library = "libnvidia-ml.so.1");

}  // namespace lockstep

#pragma GCC visibility pop
