// SPDX-License-Identifier: Apache-2.0
// The machine's best rates while all ranks load it at once: the yardsticks of a profile and of `lockstep bench`.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>

#pragma GCC visibility push(default)

namespace lockstep::observe {

/// Returns the bytes that memcpy copies per second on this rank, the median of `repeats` copies.
[[nodiscard]] double copied_bytes_per_s(std::int64_t bytes, std::int64_t repeats);

/// The matrices of peak_flops_per_s().
struct PeakOptions {
  at::ScalarType type = at::kFloat;  ///< type of the matrices' elements
  std::int64_t size = 1024;          ///< the rows and columns of the matrices
  double seconds = 1;                ///< how long to multiply, after one product that does not count
  c10::Device device = c10::kCPU;    ///< the device that multiplies
};

/// Returns the floating-point operations per second of products of square matrices on this rank, with libtorch's number
/// of threads, sustained over `seconds`: a multiplication and an addition count as two.
[[nodiscard]] double peak_flops_per_s(const PeakOptions& options);

}  // namespace lockstep::observe

#pragma GCC visibility pop
