// SPDX-License-Identifier: Apache-2.0
// Chooses the device of a rank: a pure function of the request, the rank's place and the visible GPUs.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

#include <string>

#include "lockstep/base/cuda_library.h"

namespace lockstep::comm {

struct DeviceRequest {
  std::string wanted = "auto";  ///< auto, cpu, cuda, cuda:N
  int local_rank = 0;
  int gpus = 0;                  ///< GPUs that this process sees
  int devices = 0;               ///< GPUs that the kernel and CUDA_VISIBLE_DEVICES show
  cuda::Obstacle obstacle = {};  ///< the reason why this process has no CUDA
  std::string visible = {};      ///< CUDA_VISIBLE_DEVICES; empty: not set
  bool share = false;            ///< several ranks may use one GPU
};

/// Chooses the device. auto: the GPU of the local rank, or the CPU if this process sees no GPU. cuda: the same, but
/// there must be a GPU. The ranks of a host take the GPUs that they see in turn; if each sees only its own (Slurm's
/// --gpus-per-task), that is its first. When ranks meet, require_gpu_each() finds two with the same GPU.
/// Throws: UsageError if the text names no device, ResourceError if the host has no such GPU.
[[nodiscard]] c10::Device choose_device(const DeviceRequest& request);

/// Returns a warning about idle GPUs; empty: none is idle, or the user asked for the CPU.
[[nodiscard]] std::string idle_gpus_warning(const DeviceRequest& request);

/// Returns true if another rank may have the same GPU: the user names it (cuda:N), or lets ranks share.
[[nodiscard]] bool may_share_gpu(const DeviceRequest& request);

}  // namespace lockstep::comm
