// SPDX-License-Identifier: Apache-2.0
// Attention whose shares are never stored.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise
#include <ATen/core/Tensor.h>

#pragma GCC visibility push(default)

namespace lockstep::nn {

/// What attention() does beside the products.
struct AttentionOptions {
  double scale = 1;  ///< that the products of queries and keys are multiplied by
  /// float32 [W, H, N, M], added to the scores: B is a multiple of W, and item b has that of b % W. Or [W, 1, N, M] for
  /// all heads, without a gradient.
  at::Tensor bias;
  at::Tensor hidden;  ///< bool, of a shape that expands to [B, H, N, M]: what no query sees
};

/// Returns softmax(scale * query key^T + bias) value for each item and head, heads side by side.
///
/// On a CPU with float32 or bfloat16, heads of a multiple of 8 numbers, it runs a kernel: forward and backward go over
/// a few queries at a time, compute in float32 and keep one number for each query. The result has the type in which
/// autocast would have the products, and its bits do not depend on the number of threads. All other cases run
/// libtorch's products and softmax.
///
/// Shapes: query [B, H, N, d], key and value [B, H, M, d], in any layout; the result [B, N, H * d].
/// Cost:   backward computes the scores again.
/// Throws: as at::matmul; UsageError for a second derivative through the kernel.
[[nodiscard]] at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                   const AttentionOptions& options = {});

}  // namespace lockstep::nn

#pragma GCC visibility pop
