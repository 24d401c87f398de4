// SPDX-License-Identifier: Apache-2.0
// The device memory that this process uses.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep {

/// The memory that this process uses on a device. Units: bytes.
struct MemoryUse {
  /// The peak since the process started: on CUDA the memory of tensors, on the CPU the largest resident set.
  std::int64_t peak = 0;
  /// The peak of the memory that libtorch's allocator held on the GPU, for tensors and its cache; none on the CPU.
  std::optional<std::int64_t> reserved;
};

/// Returns the memory use of `device`.
/// Cost:   a system call or two on the CPU; on CUDA it does not wait for the device.
/// Throws: UsageError for a device that is neither CPU nor CUDA, and for CUDA if cuda::library() has an obstacle.
[[nodiscard]] MemoryUse memory_use(const c10::Device& device);

namespace tensor {

/// Frees the GPU memory that no tensor uses, and resets the peaks of memory_use(). Blocks: until the GPU has finished
/// its work. Throws: UsageError if cuda::library() has an obstacle.
void forget_memory(int gpu);

/// Returns the largest resident set in the text of /proc/self/status, in bytes; 0 if the text lacks it.
[[nodiscard]] std::int64_t parse_peak_resident(std::string_view status);

}  // namespace tensor
}  // namespace lockstep

#pragma GCC visibility pop
