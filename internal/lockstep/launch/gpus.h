// SPDX-License-Identifier: Apache-2.0
// The state of this host's GPUs, from NVIDIA's management library, which is loaded on request.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep {

/// A process that computes on a GPU.
struct GpuProcess {
  int pid = 0;              ///< the process
  std::uint64_t bytes = 0;  ///< bytes of GPU memory; 0 if the driver does not report them
  std::optional<int> rank;  ///< RANK of its environment, if that is readable
};

/// The state of one GPU. A value that the driver does not report is none.
struct GpuState {
  int index = 0;                           ///< as nvidia-smi counts, whatever CUDA_VISIBLE_DEVICES says
  std::string name;                        ///< "NVIDIA H100 80GB HBM3"
  std::optional<unsigned> percent = {};    ///< share of the time in which some kernel ran
  std::uint64_t used_bytes = 0;            ///< memory in use
  std::uint64_t total_bytes = 0;           ///< memory that the GPU has
  std::optional<unsigned> celsius = {};    ///< its temperature
  std::optional<double> watts = {};        ///< the power that it draws
  std::optional<unsigned> megahertz = {};  ///< clock of the multiprocessors
  std::vector<GpuProcess> processes = {};  ///< processes that compute on it
};

/// The GPUs of this host, or why none can be seen.
struct GpuReport {
  std::vector<GpuState> gpus = {};  ///< by index
  std::string driver = {};          ///< the driver's version
  std::string problem = {};         ///< why no GPU is listed; empty if some are
};

/// Reads all GPUs of the host through `library`, which it loads. It does not throw if there is no GPU or no driver.
/// Cost: a few milliseconds for each GPU.
[[nodiscard]] GpuReport read_gpus(const std::string& library = "libnvidia-ml.so.1");

/// The driver's report on two GPUs.
struct GpuPeers {
  int first = 0;           ///< as nvidia-smi counts
  int second = 0;          ///< the same
  bool by_nvlink = false;  ///< NVLink connects them
  std::string obstacle =
      {};  ///< why they cannot reach each other's memory; empty: they can, or the driver does not say
};

/// The places of this host's GPUs.
struct GpuPlaces {
  std::vector<std::string> addresses = {};  ///< on the PCI bus, by index: "0000:17:00.0"; empty: unknown
  std::vector<GpuPeers> pairs = {};         ///< each two
};

/// Reads them through `library`, as read_gpus() does. The result is empty if the host has no GPU or no driver.
[[nodiscard]] GpuPlaces read_gpu_places(const std::string& library = "libnvidia-ml.so.1");

/// Returns the slices (MIG) of all GPUs as CUDA_VISIBLE_DEVICES names them: "MIG-...,MIG-...". Empty: some GPU is not
/// sliced, or there is none. Reads them through `library`, as read_gpus() does.
[[nodiscard]] std::string list_slices(const std::string& library = "libnvidia-ml.so.1");

/// Sets CUDA_VISIBLE_DEVICES to list_slices() if the user has not set it: CUDA would show every rank the same slice.
/// Thread-safe: no.
void show_slices();

}  // namespace lockstep

#pragma GCC visibility pop
