// SPDX-License-Identifier: Apache-2.0
// Make-believe GPUs for a libtorch 1.13 without CUDA. Their type is cuda, so that all code takes the way of a GPU:
// tensors lie in the host's memory, operators are the CPU's in the order of their stream, streams have threads, and the
// ledger knows who may touch what. A program that links them has them all the time.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <string>

namespace lockstep::testing::make_believe {

/// Their number: LOCKSTEP_DOUBLE_GPUS, 1 if it is not set, 8 at most.
[[nodiscard]] int gpu_count();

/// The calling thread's GPU.
[[nodiscard]] c10::Device current_gpu();
/// The calling thread's stream on this GPU.
[[nodiscard]] c10::Stream current_stream(const c10::Device& gpu);

/// Makes a GPU current in the calling thread for its lifetime.
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

/// Registers guard, hooks and operators. Call it before main(): libtorch asks for devices once. Returns: false if
/// libtorch has its own CUDA.
bool register_gpus();

}  // namespace lockstep::testing::make_believe
