// SPDX-License-Identifier: Apache-2.0
// Kernels for GPUs that are written in CUDA C++ and compiled in the process, for the GPU that is there, by NVRTC, which
// Python's torch brings along. So a build needs no CUDA compiler, and a new GPU no new build.
#pragma once

#include <string>

#pragma GCC visibility push(default)

namespace lockstep::tensor {

/// How many blocks a kernel runs with, in two dimensions, and the threads of each.
struct KernelGrid {
  unsigned x = 1;          ///< blocks
  unsigned y = 1;          ///< blocks
  unsigned threads = 256;  ///< of a block
};

/// Compiled kernels. For one thread at a time.
class DeviceKernels {
 public:
  DeviceKernels() = default;
  DeviceKernels(const DeviceKernels&) = delete;
  DeviceKernels& operator=(const DeviceKernels&) = delete;
  virtual ~DeviceKernels() = default;

  /// Puts the kernel of this name on the current stream of the current GPU. It has one parameter, a struct, which
  /// `argument` points to; its value is copied. Stream: the current one. Blocks: no.
  /// Throws: InternalError if the program has no such kernel; ResourceError, with the driver's words, if the driver
  /// refuses.
  virtual void launch(const char* kernel, const KernelGrid& grid, const void* argument) = 0;
};

/// What a program of kernels is made of.
struct KernelSource {
  const char* name;    ///< "norm_act.cuh", for the compiler's messages
  const char* text;    ///< CUDA C++ without headers, its kernels `extern "C"`
  const char* before;  ///< lines that go before it, as definitions
};

/// Returns the kernels for the current GPU, which are compiled at the first call for each GPU and source (1 to 3 s; it
/// must not be within a recording of a graph). Null where that is not possible: no GPU, no NVRTC, or a source that does
/// not compile; a note says why, once. LOCKSTEP_GPU_KERNELS=0 has none. Thread-safe: yes.
[[nodiscard]] DeviceKernels* device_kernels(const KernelSource& source);

}  // namespace lockstep::tensor

#pragma GCC visibility pop
