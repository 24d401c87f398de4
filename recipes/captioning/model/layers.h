// SPDX-License-Identifier: Apache-2.0
// What both captioning networks are made of: linear layers with their first weights, attention, positions, and words
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

/// Xavier's uniform weights and a bias of zeros; `parts`: layers side by side, each with weights of its own size.
[[nodiscard]] nn::Linear linear(std::int64_t in, std::int64_t out, std::int64_t parts = 1);
[[nodiscard]] nn::Linear linear_without_bias(std::int64_t in, std::int64_t out);
/// Xavier's uniform weights as well.
[[nodiscard]] torch::nn::Embedding embedding(std::int64_t ids, std::int64_t width);
[[nodiscard]] nn::LayerNorm layer_norm(std::int64_t width);
/// The layer's output, with gradients of the same bits on any number of threads. nn::LayerNorm's own kernel has them,
/// but it takes only dense x of some 1,500 numbers and more; libtorch's, which takes the others, splits sums over rows
/// among threads. So x is made dense, and with fewer than 4,096 numbers goes through group norm in one group, whose
/// sums are not split.
/// Shapes: [..., width] of float32 or bfloat16 to the same; small ones come as float32.
[[nodiscard]] at::Tensor normed(nn::LayerNorm& layer, const at::Tensor& x);

/// One linear layer over two inputs side by side, [x; shared], where `shared` is the same for many x: each half is a
/// product of its own, so that the second is taken once.
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

/// What queries are multiplied with: 1 / sqrt(dim / heads).
[[nodiscard]] double query_scale(std::int64_t dim, std::int64_t heads);

/// sin and cos of each position, alternating, in wavelengths from 2 pi to 10,000 times that.
/// Shapes: float32 [count, dim], of positions first, first + 1 ...; `dim` is even.
[[nodiscard]] at::Tensor sinusoids(std::int64_t first, std::int64_t count, std::int64_t dim);
/// The first half of `dim` for the row, the second for the column. Shapes: [height * width, dim]; dim divides by 4.
[[nodiscard]] at::Tensor grid_sinusoids(std::int64_t height, std::int64_t width, std::int64_t dim);

/// The mean over the rows that are there; mask bool [B, L] or undefined. Shapes: [B, L, C] to [B, C].
[[nodiscard]] at::Tensor mean_of_rows(const at::Tensor& x_BLC, const at::Tensor& mask);

/// `words`, each replaced with the given probability by one that the network draws after the words before it; after
/// logits that are no numbers by any word, so that it is the loss that is found not to be finite.
/// Shapes: words int64 [...], logits [..., V]. No gradient.
[[nodiscard]] at::Tensor partly_drawn(const at::Tensor& words, const at::Tensor& logits, double probability);

}  // namespace lockstep::captioning
