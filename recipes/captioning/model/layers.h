// SPDX-License-Identifier: Apache-2.0
// The parts shared by both captioning networks: linear layers with their initial weights, attention, sinusoidal
// position encodings, and the drawing of words for scheduled sampling.
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

/// Creates a layer with Xavier-uniform weights and zero bias. `parts`: number of layers concatenated in it; each is
/// initialised for its own size.
[[nodiscard]] nn::Linear linear(std::int64_t in, std::int64_t out, std::int64_t parts = 1);
[[nodiscard]] nn::Linear linear_without_bias(std::int64_t in, std::int64_t out);
/// Creates an embedding with Xavier-uniform weights.
[[nodiscard]] torch::nn::Embedding embedding(std::int64_t ids, std::int64_t width);
[[nodiscard]] nn::LayerNorm layer_norm(std::int64_t width);
/// Applies the layer with gradients that are bitwise equal on any number of threads. nn::LayerNorm's own kernel
/// guarantees this, but takes only dense x of at least about 1,500 numbers; libtorch's kernel for other x splits sums
/// over rows among threads. So x is made dense, and below 4,096 numbers it goes through group norm with one group,
/// whose sums are not split. Shapes: [..., width] of float32 or bfloat16 to the same type; a small x to float32.
[[nodiscard]] at::Tensor normed(nn::LayerNorm& layer, const at::Tensor& x);

/// One linear layer over two concatenated inputs, [x; shared], with the same `shared` for many x: the layer is split
/// into two products, so that the one with `shared` is computed only once.
class PairLinear final : public torch::nn::Module {
 public:
  PairLinear(std::int64_t in, std::int64_t shared, std::int64_t out);

  /// The product with `shared`, plus the bias. Shapes: [..., shared] to [..., out].
  [[nodiscard]] at::Tensor of_shared(const at::Tensor& shared) const;
  /// The product with x. Shapes: [..., in] to [..., out].
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

/// Splits the heads without copying. Shapes: [B, N, heads * d] to [B, heads, N, d].
[[nodiscard]] at::Tensor heads_first(const at::Tensor& x_BNC, std::int64_t heads);

/// The factor for queries: 1 / sqrt(dim / heads).
[[nodiscard]] double query_scale(std::int64_t dim, std::int64_t heads);

/// Alternating sines and cosines of each position, with wavelengths from 2 pi to 10,000 times 2 pi.
/// Shapes: float32 [count, dim], for positions first, first + 1 ...; `dim` is even.
[[nodiscard]] at::Tensor sinusoids(std::int64_t first, std::int64_t count, std::int64_t dim);
/// The sinusoids of a grid: the first half of `dim` is for the row, the second for the column. Shapes: [height * width,
/// dim]; `dim` is divisible by 4.
[[nodiscard]] at::Tensor grid_sinusoids(std::int64_t height, std::int64_t width, std::int64_t dim);

/// The mean over the valid rows; mask bool [B, L] or undefined. Shapes: [B, L, C] to [B, C].
[[nodiscard]] at::Tensor mean_of_rows(const at::Tensor& x_BLC, const at::Tensor& mask);

/// Returns `words`, each replaced with the given probability by a word drawn from the network's logits. If the logits
/// are NaN, an arbitrary word is drawn, so that the loss is detected as non-finite.
/// Shapes: words int64 [...], logits [..., V]. No gradient.
[[nodiscard]] at::Tensor partly_drawn(const at::Tensor& words, const at::Tensor& logits, double probability);

}  // namespace lockstep::captioning
