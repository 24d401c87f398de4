// SPDX-License-Identifier: Apache-2.0
// Fake GPUs for a libtorch 1.13 without CUDA. Their device type is cuda, so that all code runs as for a GPU: tensors
// are in the host's memory, the CPU's operators run in stream order, streams have threads, and the ledger checks the
// order of memory accesses. A program that links them has them from start to finish.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <string>

namespace lockstep::testing::make_believe {

/// The number of fake GPUs: LOCKSTEP_DOUBLE_GPUS, 1 if it is not set, at most 8.
[[nodiscard]] int gpu_count();

/// The calling thread's GPU.
[[nodiscard]] c10::Device current_gpu();
/// The calling thread's stream on this GPU.
[[nodiscard]] c10::Stream current_stream(const c10::Device& gpu);

/// Makes a GPU current on the calling thread for the object's lifetime.
class OnGpu {
 public:
  explicit OnGpu(int index);
  ~OnGpu();
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

 private:
  const int before_;
};

[[nodiscard]] bool is_pinned(const void* data);

/// Registers guard, hooks and operators. Call it before main(), because libtorch looks for devices once. Returns false
/// if libtorch has its own CUDA.
bool register_gpus();

}  // namespace lockstep::testing::make_believe
