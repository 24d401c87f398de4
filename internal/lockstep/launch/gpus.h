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
  int pid = 0;              ///< process id
  std::uint64_t bytes = 0;  ///< bytes of GPU memory; 0 if the driver does not report them
  std::optional<int> rank;  ///< value of RANK in its environment, if that is readable
};

/// The state of one GPU. A value that the driver does not report is none.
struct GpuState {
  int index = 0;                           ///< index in nvidia-smi's order; CUDA_VISIBLE_DEVICES does not change it
  std::string name;                        ///< name, such as "NVIDIA H100 80GB HBM3"
  std::optional<unsigned> percent = {};    ///< percentage of the time during which a kernel ran
  std::uint64_t used_bytes = 0;            ///< memory in use
  std::uint64_t total_bytes = 0;           ///< total memory of the GPU
  std::optional<unsigned> celsius = {};    ///< its temperature
  std::optional<double> watts = {};        ///< its power draw
  std::optional<unsigned> megahertz = {};  ///< clock of the multiprocessors
  std::vector<GpuProcess> processes = {};  ///< processes that compute on it
};

/// The GPUs of this host, or the reason why none is visible.
struct GpuReport {
  std::vector<GpuState> gpus = {};  ///< the GPUs, by index
  std::string driver = {};          ///< the driver's version
  std::string problem = {};         ///< reason why no GPU is listed; empty if some are
};

/// Reads all GPUs of the host through `library`, which it loads. It does not throw if there is no GPU or no driver.
/// Cost: a few milliseconds for each GPU.
[[nodiscard]] GpuReport read_gpus(const std::string& library = "libnvidia-ml.so.1");

/// The driver's report on two GPUs.
struct GpuPeers {
  int first = 0;           ///< one GPU's index in nvidia-smi's order
  int second = 0;          ///< the other GPU's index
  bool by_nvlink = false;  ///< connected by NVLink
  std::string obstacle =
      {};  ///< reason why they cannot reach each other's memory; empty: they can, or the driver does not report it
};

/// The PCI addresses of this host's GPUs, and the links between them.
struct GpuPlaces {
  std::vector<std::string> addresses = {};  ///< PCI address by GPU index: "0000:17:00.0"; empty: unknown
  std::vector<GpuPeers> pairs = {};         ///< every pair of GPUs
};

/// Reads the addresses and links through `library`, as read_gpus() does. The result is empty without a GPU or a driver.
[[nodiscard]] GpuPlaces read_gpu_places(const std::string& library = "libnvidia-ml.so.1");

/// Returns the slices (MIG) of all GPUs as CUDA_VISIBLE_DEVICES names them: "MIG-...,MIG-...". The result is empty if
/// there is no GPU, or if one of them is not sliced. Uses `library`, as read_gpus() does.
[[nodiscard]] std::string list_slices(const std::string& library = "libnvidia-ml.so.1");

/// Sets CUDA_VISIBLE_DEVICES, if unset, to list_slices(). Otherwise CUDA would show every rank the same slice.
/// Thread-safe: no.
void show_slices();

}  // namespace lockstep

#pragma GCC visibility pop
