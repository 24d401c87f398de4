// SPDX-License-Identifier: Apache-2.0
// How much memory this process has taken of its device.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep {

/// Units: bytes.
struct MemoryUse {
  /// CUDA: the most that tensors took at a time; CPU: the largest resident set. Both since the process started.
  std::int64_t peak = 0;
  /// CUDA: the most that libtorch's allocator held of the GPU at a time, tensors and cache; CPU: none.
  std::optional<std::int64_t> reserved;
};

/// Cost:   a system call or two on the CPU; on CUDA none that waits for the device.
/// Throws: UsageError for a device that is neither CPU nor CUDA, and for CUDA where Lockstep was built without it.
[[nodiscard]] MemoryUse memory_use(const c10::Device& device);

namespace tensor {

/// The largest resident set in the text of /proc/self/status, in bytes; 0 where it does not stand there.
[[nodiscard]] std::int64_t parse_peak_resident(std::string_view status);

}  // namespace tensor
}  // namespace lockstep

#pragma GCC visibility pop
