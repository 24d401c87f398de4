// SPDX-License-Identifier: Apache-2.0
// Attention that never stores the attention weights (the softmax of the scores).
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/core/Tensor.h>

#pragma GCC visibility push(default)

namespace lockstep::nn {

/// The options of attention(): everything other than query, key and value.
struct AttentionOptions {
  double scale = 1;  ///< factor applied to the query-key products
  /// The bias added to the scores, float32 [W, H, N, M]: B is a multiple of W, and item b uses bias b % W. A bias [W,
  /// 1, N, M] applies to all heads, and gets no gradient.
  at::Tensor bias;
  at::Tensor hidden;  ///< bool, broadcastable to [B, H, N, M]: true hides a key from a query
};

/// Returns softmax(scale * query key^T + bias) value for each item and head, with the heads concatenated.
///
/// On a CPU with float32 or bfloat16, and a head size d that is a multiple of 8, it uses a custom kernel. Forward and
/// backward process a few queries at a time, compute in float32 and keep one float32 per query. The result has the type
/// that autocast would give the products; it is bit-identical for any number of threads. All other cases fall back to
/// libtorch's matrix products and softmax.
///
/// Shapes: query [B, H, N, d], key and value [B, H, M, d], in any layout; the result [B, N, H * d].
/// Cost:   backward recomputes the scores.
/// Throws: anything at::matmul throws; UsageError for a second derivative through the kernel.
[[nodiscard]] at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                   const AttentionOptions& options = {});

}  // namespace lockstep::nn

#pragma GCC visibility pop
