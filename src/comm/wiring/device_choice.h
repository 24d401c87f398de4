// SPDX-License-Identifier: Apache-2.0
// Which device a rank computes on: a pure function of what was asked for, the rank's place and the GPUs that it sees.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

#include <string>

namespace lockstep::comm {

struct DeviceRequest {
  std::string wanted = "auto";  ///< auto, cpu, cuda, cuda:N
  int local_rank = 0;
  int local_world = 1;
  int gpus = 0;              ///< GPUs that this process sees
  bool has_cuda = false;     ///< libtorch was built with CUDA
  std::string visible = {};  ///< CUDA_VISIBLE_DEVICES; empty: not set
  bool share = false;        ///< several ranks may use one GPU
};

/// Chooses the device. auto: the GPU of the local rank, or the CPU where this process sees no GPU. cuda: the same, but
/// there must be a GPU. With `share` the ranks of a host use its GPUs in turn.
/// Throws: UsageError for a text that names no device, ResourceError where ranks outnumber GPUs or there is none.
[[nodiscard]] c10::Device choose_device(const DeviceRequest& request);

}  // namespace lockstep::comm
