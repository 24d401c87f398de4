// SPDX-License-Identifier: Apache-2.0
// The transformer: an encoder with window attention and a global token, and a decoder that reads the global token in
// every layer.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "captioning/model/grid_backbone.h"
#include "captioning/model/layers.h"
#include "captioning/model/model.h"
#include "captioning/model/window_attention.h"

namespace lockstep::captioning {

/// Attention and feed-forward, each followed by a residual connection and layer norm.
class EncoderLayer final : public torch::nn::Module {
 public:
  EncoderLayer(const ModelOptions& options, bool shifted);
  /// Takes the arguments of WindowAttention::forward().
  at::Tensor forward(const at::Tensor& x, const Grid& grid, const at::Tensor& mask);

 private:
  std::shared_ptr<WindowAttention> attention_;
  std::shared_ptr<FeedForward> feed_forward_;
  nn::LayerNorm attention_norm_{nullptr};
  nn::LayerNorm feed_forward_norm_{nullptr};
  nn::Dropout dropout_{nullptr};
};

/// x = LN(ReLU(W [x; global]) + x), attention over the words so far, attention over the image, and feed-forward.
class DecoderLayer final : public torch::nn::Module {
 public:
  explicit DecoderLayer(const ModelOptions& options);

  /// The parts of the layer that depend only on the image: the product of W and the global token, keys and values.
  struct Picture {
    at::Tensor global;  ///< [B, dim]
    at::Tensor key;     ///< [B, heads, L + 1, depth]
    at::Tensor value;   ///< [B, heads, L + 1, depth]
    at::Tensor hidden;  ///< bool [B, 1, 1, L + 1], true for padding tokens; undefined if there are none
  };
  Picture look(const at::Tensor& tokens_and_global, const at::Tensor& global);

  /// Computes all words at once. Shapes: x [N, T, dim]; unseen bool [T, T], true if a word must not attend to another.
  at::Tensor forward(const at::Tensor& x, const Picture& picture, const at::Tensor& unseen);
  /// Computes one more word. `cache`: keys and values of the earlier words; the new word's are appended.
  /// Shapes: x [N, 1, dim]; cache [N, 2, heads, words, depth].
  at::Tensor step(const at::Tensor& x, const Picture& picture, at::Tensor& cache);

 private:
  at::Tensor with_global(const at::Tensor& x, const Picture& picture);
  at::Tensor rest(const at::Tensor& x, const at::Tensor& attended, const Picture& picture);
  /// Multi-head attention; `hidden` is as in nn::AttentionOptions.
  [[nodiscard]] at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                  const at::Tensor& hidden) const;

  std::int64_t heads_;
  double scale_;
  std::shared_ptr<PairLinear> fuse_;
  nn::Linear query_key_value_{nullptr};
  nn::Linear self_out_{nullptr};
  nn::Linear query_{nullptr};
  nn::Linear key_value_{nullptr};
  nn::Linear cross_out_{nullptr};
  std::shared_ptr<FeedForward> feed_forward_;
  std::vector<nn::LayerNorm> norms_;
  nn::Dropout dropout_{nullptr};
};

/// The transformer network. Word embeddings are multiplied by sqrt(dim), and sinusoids of positions from 1 are added.
/// Dropout follows the embeddings, the hidden layer of each feed-forward block, and each sublayer; initial weights are
/// Xavier-uniform. Source: Wang et al., End-to-End Transformer Based Model for Image Captioning, 2022.
class TransformerCaptioner final : public Captioner {
 public:
  explicit TransformerCaptioner(const ModelOptions& options);

  Memory encode(const at::Tensor& data, const std::vector<std::int64_t>& lengths) override;
  at::Tensor logits(const Memory& memory, const at::Tensor& inputs, double scheduled_sampling) override;
  DecoderState start(const Memory& memory) override;
  at::Tensor step(const Memory& memory, DecoderState& state, const at::Tensor& words) override;

 private:
  at::Tensor decode(const Memory& memory, const at::Tensor& inputs);
  at::Tensor embedded(const at::Tensor& words, std::int64_t first);
  [[nodiscard]] DecoderLayer::Picture picture_of(const Memory& memory, std::size_t layer) const;

  ModelOptions options_;
  std::shared_ptr<FeatureEmbedding> features_;
  std::vector<std::shared_ptr<EncoderLayer>> encoder_;
  torch::nn::Embedding words_{nullptr};
  std::vector<std::shared_ptr<DecoderLayer>> decoder_;
  nn::Dropout dropout_{nullptr};
  nn::Linear classifier_{nullptr};
  at::Tensor positions_;  ///< sinusoids of word positions, as many as have been needed so far
};

}  // namespace lockstep::captioning
