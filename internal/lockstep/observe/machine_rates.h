// SPDX-License-Identifier: Apache-2.0
// The machine's best rates while all ranks load it at once, as references for a profile and for `lockstep bench`.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>

#pragma GCC visibility push(default)

namespace lockstep::observe {

/// Returns the bytes per second that memcpy copies on this rank, as the median of `repeats` copies.
[[nodiscard]] double copied_bytes_per_s(std::int64_t bytes, std::int64_t repeats);

/// The options of peak_flops_per_s().
struct PeakOptions {
  at::ScalarType type = at::kFloat;  ///< type of the matrices' elements
  std::int64_t size = 1024;          ///< the rows and columns of the matrices
  double seconds = 1;                ///< duration of the measurement, after one warm-up product
  c10::Device device = c10::kCPU;    ///< the device to measure
};

/// Returns the floating-point operations per second of products of square matrices on this rank, sustained over
/// `seconds` with libtorch's number of threads. A multiply-add counts as two operations.
[[nodiscard]] double peak_flops_per_s(const PeakOptions& options);

}  // namespace lockstep::observe

#pragma GCC visibility pop
