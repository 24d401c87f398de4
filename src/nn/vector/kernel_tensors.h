// SPDX-License-Identifier: Apache-2.0
// Connects libtorch's tensors to Lockstep's kernels: element types, parallel blocks, and the order of sums.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lockstep/tensor/threads.h"
#include "lockstep/tensor/torch_version.h"
#include "nn/vector/element_type.h"

namespace lockstep::nn::detail {

/// True for a float32 or bfloat16 tensor on the CPU that is not empty.
[[nodiscard]] bool has_kernel_type(const at::Tensor& tensor);
/// True for a tensor without gaps, contiguous or channels-last.
[[nodiscard]] bool is_dense(const at::Tensor& tensor);
[[nodiscard]] bool is_float_vector(const at::Tensor& tensor);
[[nodiscard]] ElementType element_type(const at::Tensor& tensor);

/// Returns the type in which libtorch computes a product of `input` and float32 weights, with or without autocast; none
/// if libtorch cannot, or if Lockstep's kernels lack the type.
[[nodiscard]] c10::optional<at::ScalarType> product_type(const at::Tensor& input);

/// True if libtorch's products of `type` are unusable on this processor: bfloat16 on x86-64 without AVX-512 (thirty
/// times slower than float32) and on aarch64 (they may throw). Lockstep's layers then multiply the rounded values in
/// float32, and round the result.
[[nodiscard]] bool multiplies_slowly(at::ScalarType type);

/// Turns autocast off for the CPU until it goes out of scope.
class [[nodiscard]] FullPrecision {
 public:
  FullPrecision() : before_(tensor::autocast_state(at::kCPU)) {
    tensor::AutocastState off = before_;
    off.enabled = false;
    tensor::set_autocast_state(at::kCPU, off);
  }
  ~FullPrecision() { tensor::set_autocast_state(at::kCPU, before_); }
  FullPrecision(const FullPrecision&) = delete;
  FullPrecision& operator=(const FullPrecision&) = delete;

 private:
  tensor::AutocastState before_;
};

/// Throws: UsageError if a second derivative of `layer` is computed. Call it first in each backward.
void refuse_second_derivative(const char* layer);

/// A bit for each element, not yet filled, and the seed to fill them with. libtorch's generator draws the seed, like
/// all random numbers of a step.
struct DropoutBits {
  at::Tensor bits;
  std::uint64_t seed;
};
[[nodiscard]] DropoutBits make_dropout_bits(std::int64_t numel);

/// Divides `count` elements into blocks, and calls f(begin, end, index) for each block, in parallel. The blocks, and so
/// their sums, do not depend on the number of threads.
template <class F>
void for_blocks(std::int64_t count, std::int64_t block, F f) {
  tensor::parallel_for(0, (count + block - 1) / block, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) f(i * block, std::min((i + 1) * block, count), i);
  });
}

/// The sums of blocks by column: one row of `width` for each block. total() adds the rows in double and in order.
class BlockSums {
 public:
  BlockSums(std::int64_t blocks, std::int64_t width)
      : width_(static_cast<std::size_t>(width)), sums_(static_cast<std::size_t>(blocks * width)) {}

  [[nodiscard]] float* of(std::int64_t block) { return sums_.data() + static_cast<std::size_t>(block) * width_; }
  /// Returns the total, float32 [width].
  [[nodiscard]] at::Tensor total() const;

 private:
  std::size_t width_;
  std::vector<float> sums_;
};

}  // namespace lockstep::nn::detail
