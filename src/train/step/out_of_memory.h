// SPDX-License-Identifier: Apache-2.0
// Detects that memory ran out, names the tensors that hold the memory, and suggests a remedy.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/job.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/tensor/device_memory.h"

namespace lockstep::train {

/// Returns true for the errors that libtorch's allocators (CPU and CUDA) and `new` throw when memory runs out.
[[nodiscard]] bool is_out_of_memory(const std::exception& error);

/// A tensor and its size: {"fc.weight (gradient)", 4096}.
struct Holder {
  std::string name;
  std::int64_t bytes = 0;
};

/// Returns the tensors of the network, their gradients and the optimizer state on this rank, largest first.
[[nodiscard]] std::vector<Holder> holders(const torch::nn::Module& net, const Optimizer& optimizer);

/// Returns the highest peak memory use of any rank so far. Collective: yes.
[[nodiscard]] MemoryUse most_memory_used(const Job& job);

/// The facts known when memory runs out.
struct OutOfMemory {
  std::string when;             ///< "step 12"
  std::string cause;            ///< the allocator's message
  bool setting_up = false;      ///< no batch has been computed yet
  std::int64_t batch_size = 0;  ///< 0 if not yet known
  std::int64_t accumulate_steps = 1;
  MemoryUse use;
  std::vector<Holder> largest;  ///< tensors, in any order; the message names the five largest
};

/// Builds an error from these facts. It suggests the next smaller batch, with more accumulated batches, so that a step
/// keeps its number of samples.
[[nodiscard]] ResourceError out_of_memory_error(OutOfMemory facts);

}  // namespace lockstep::train
