// SPDX-License-Identifier: Apache-2.0
// GPU kernels, written in CUDA C++. NVRTC, which comes with Python's torch, compiles them in the process, for its GPU.
// Building therefore needs no CUDA compiler, and a new GPU needs no rebuild.
#pragma once

#include <string>

#pragma GCC visibility push(default)

namespace lockstep::tensor {

/// The grid of a kernel launch: blocks in two dimensions, and threads per block.
struct KernelGrid {
  unsigned x = 1;          ///< blocks in the first dimension
  unsigned y = 1;          ///< blocks in the second dimension
  unsigned threads = 256;  ///< threads per block
};

/// Compiled kernels. Thread-safe: yes.
class DeviceKernels {
 public:
  DeviceKernels() = default;
  DeviceKernels(const DeviceKernels&) = delete;
  DeviceKernels& operator=(const DeviceKernels&) = delete;
  virtual ~DeviceKernels() = default;

  /// Launches the kernel of this name on the current stream of the current GPU. Its one parameter is a struct:
  /// `argument` points to it, and its value is copied. Stream: the current one. Blocks: no.
  /// Throws: InternalError if the program has no such kernel; ResourceError with the driver's message.
  virtual void launch(const char* kernel, const KernelGrid& grid, const void* argument) = 0;
};

/// The source text of one or more kernels.
struct KernelSource {
  const char* name;    ///< file name for the compiler's messages, such as "norm_act.cuh"
  const char* text;    ///< CUDA C++ without headers, whose kernels are `extern "C"`
  const char* before;  ///< lines to insert before the text, such as definitions
};

/// Returns the kernels for the current GPU. The first call for each GPU and source compiles them (1 to 3 s; it must not
/// happen while a graph is being recorded). Null if that is not possible: no GPU, no NVRTC, or a source that does not
/// compile; the reason is logged once. Also null with LOCKSTEP_GPU_KERNELS=0. Thread-safe: yes.
[[nodiscard]] DeviceKernels* device_kernels(const KernelSource& source);

}  // namespace lockstep::tensor

#pragma GCC visibility pop
