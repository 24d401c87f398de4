// SPDX-License-Identifier: Apache-2.0
// Make-believe GPUs for a libtorch 1.13 without CUDA. They are of the type cuda, so that all code takes the way of a
// GPU: tensors lie in the host's memory, operators are the CPU's in the order of their stream, streams have threads,
// and the ledger knows who may touch what. A program that links them has them from its start to its end.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <string>

namespace lockstep::testing::make_believe {

/// How many there are: LOCKSTEP_DOUBLE_GPUS, 1 where it is not set, 8 at most.
[[nodiscard]] int gpu_count();

/// The calling thread's.
[[nodiscard]] c10::Device current_gpu();
/// The calling thread's, on this GPU.
[[nodiscard]] c10::Stream current_stream(const c10::Device& gpu);

/// Makes a GPU current in the calling thread while it lives.
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

/// Registers guard, hooks and operators. Call it before main(): libtorch asks for devices once. Returns: false where
/// libtorch has a CUDA of its own.
bool register_gpus();

}  // namespace lockstep::testing::make_believe
