// SPDX-License-Identifier: Apache-2.0
// Chooses the device of a rank, as a pure function of the request, the rank's place and the visible GPUs.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

#include <string>

#include "lockstep/base/cuda_library.h"

namespace lockstep::comm {

struct DeviceRequest {
  std::string wanted = "auto";  ///< the requested device: auto, cpu, cuda or cuda:N
  int local_rank = 0;
  int gpus = 0;                  ///< number of GPUs that this process sees
  int devices = 0;               ///< number of GPUs that the kernel and CUDA_VISIBLE_DEVICES show
  cuda::Obstacle obstacle = {};  ///< reason why this process cannot use CUDA
  std::string visible = {};      ///< value of CUDA_VISIBLE_DEVICES; empty if it is not set
  bool share = false;            ///< several ranks may share one GPU
};

/// Chooses the device. auto: the GPU of the local rank, or the CPU if this process sees no GPU. cuda: that GPU, or an
/// error. The ranks of a host take the visible GPUs in the order of their local ranks; a rank that sees only its own
/// GPU (Slurm's --gpus-per-task) takes that one. require_gpu_each() later detects two ranks with the same GPU.
/// Throws: UsageError if `wanted` does not name a device, ResourceError if the host does not have the GPU.
[[nodiscard]] c10::Device choose_device(const DeviceRequest& request);

/// Returns a warning about idle GPUs; empty if none is idle or the user asked for the CPU.
[[nodiscard]] std::string idle_gpus_warning(const DeviceRequest& request);

/// Returns true if another rank may use the same GPU: the user names it (cuda:N), or lets ranks share.
[[nodiscard]] bool may_share_gpu(const DeviceRequest& request);

}  // namespace lockstep::comm
