// SPDX-License-Identifier: Apache-2.0
// The parts of both captioning networks: linear layers with their initial weights, attention, positions, and words
// drawn for scheduled sampling.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>

#include <cstdint>

#include "lockstep/nn/activation.h"
#include "lockstep/nn/layer_norm.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/linear_relu.h"

namespace lockstep::captioning {

/// Xavier's uniform weights and a bias of zeros. `parts`: layers side by side, each initialised by its own size.
[[nodiscard]] nn::Linear linear(std::int64_t in, std::int64_t out, std::int64_t parts = 1);
[[nodiscard]] nn::Linear linear_without_bias(std::int64_t in, std::int64_t out);
/// Also with Xavier's uniform weights.
[[nodiscard]] torch::nn::Embedding embedding(std::int64_t ids, std::int64_t width);
[[nodiscard]] nn::LayerNorm layer_norm(std::int64_t width);
/// The layer's output, with gradients of the same bits on any number of threads. nn::LayerNorm's own kernel guarantees
/// that, but takes only dense x of at least some 1,500 numbers; libtorch's kernel for the others splits sums over rows
/// between threads. So x is made dense, and with fewer than 4,096 numbers it goes through group norm in one group,
/// whose sums are not split.
/// Shapes: [..., width] of float32 or bfloat16 to the same; small ones return as float32.
[[nodiscard]] at::Tensor normed(nn::LayerNorm& layer, const at::Tensor& x);

/// One linear layer over two concatenated inputs, [x; shared], with the same `shared` for many x: each half is a
/// separate product, so that the second is computed once.
class PairLinear final : public torch::nn::Module {
 public:
  PairLinear(std::int64_t in, std::int64_t shared, std::int64_t out);

  /// The half of `shared`, with the bias. Shapes: [..., shared] to [..., out].
  [[nodiscard]] at::Tensor of_shared(const at::Tensor& shared) const;
  /// The half of x. Shapes: [..., in] to [..., out].
  [[nodiscard]] at::Tensor of(const at::Tensor& x) const;

 private:
  std::int64_t in_;
  at::Tensor weight_;  ///< [out, in + shared]
  at::Tensor bias_;    ///< [out]
};

/// Linear, ReLU, dropout, linear.
class FeedForward final : public torch::nn::Module {
 public:
  FeedForward(std::int64_t dim, std::int64_t middle, double dropout);
  at::Tensor forward(const at::Tensor& x);

 private:
  nn::LinearReLU first_{nullptr};
  nn::Linear second_{nullptr};
};

/// Shapes: [B, N, heads * d] to [B, heads, N, d], no copy.
[[nodiscard]] at::Tensor heads_first(const at::Tensor& x_BNC, std::int64_t heads);

/// The factor of the queries: 1 / sqrt(dim / heads).
[[nodiscard]] double query_scale(std::int64_t dim, std::int64_t heads);

/// sin and cos of each position, alternating, in wavelengths from 2 pi to 10,000 times that.
/// Shapes: float32 [count, dim], for positions first, first + 1 ...; `dim` is even.
[[nodiscard]] at::Tensor sinusoids(std::int64_t first, std::int64_t count, std::int64_t dim);
/// The first half of `dim` is for the row, the second for the column. Shapes: [height * width, dim]; dim divides by 4.
[[nodiscard]] at::Tensor grid_sinusoids(std::int64_t height, std::int64_t width, std::int64_t dim);

/// The mean over the existing rows; mask bool [B, L] or undefined. Shapes: [B, L, C] to [B, C].
[[nodiscard]] at::Tensor mean_of_rows(const at::Tensor& x_BLC, const at::Tensor& mask);

/// `words`, each replaced with the given probability by a word drawn from the network's logits. If the logits are NaN,
/// any word is drawn, so that the loss is found not to be finite.
/// Shapes: words int64 [...], logits [..., V]. No gradient.
[[nodiscard]] at::Tensor partly_drawn(const at::Tensor& words, const at::Tensor& logits, double probability);

}  // namespace lockstep::captioning
