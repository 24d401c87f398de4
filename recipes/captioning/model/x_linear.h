// SPDX-License-Identifier: Apache-2.0
// X-linear attention: elementwise products of queries and regions (low-rank bilinear pooling) give weights over the
// regions and over the channels. The encoder is built from it, and the LSTM decoder uses it.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "captioning/model/grid_backbone.h"
#include "captioning/model/layers.h"
#include "captioning/model/model.h"

namespace lockstep::captioning {

inline constexpr double kCelu = 1.3;  ///< alpha of the network's CELU

/// Two linear layers of the same input, each followed by CELU(1.3) and group norm with the heads as groups.
class NormedPair final : public torch::nn::Module {
 public:
  NormedPair(std::int64_t dim, std::int64_t heads);
  /// Returns both outputs. Shapes: [B, N, dim] to float32 [B, heads, N, dim / heads] each.
  std::vector<at::Tensor> forward(const at::Tensor& x);

 private:
  std::int64_t heads_;
  nn::Linear linear_{nullptr};
  at::Tensor norm_weight_;  ///< [2 dim]
  at::Tensor norm_bias_;    ///< [2 dim]
};

/// The keys and values of L regions in an attention layer.
struct Regions {
  at::Tensor key;    ///< [B, heads, L, depth + 1]; the last number is 1
  at::Tensor value;  ///< [B, heads, L, depth]
};

/// One attention layer, with a query q, and keys k and values v of the regions: m = ReLU(W (q * k)) for each region.
/// The softmax of w m weights the regions, and sigmoid(U mean(m)) weights the channels; the weighted values are
/// multiplied by a value computed from the query.
/// Source: Pan et al., X-Linear Attention Networks for Image Captioning, 2020. Its w has a bias, which softmax cancels;
///         here it has none.
class BilinearAttention final : public torch::nn::Module {
 public:
  explicit BilinearAttention(const ModelOptions& options);

  Regions look(const at::Tensor& tokens);
  /// Shapes: queries [B, S, dim], with S queries per image; mask bool [B, L] or undefined; to [B, S, dim].
  at::Tensor forward(const at::Tensor& queries, const Regions& regions, const at::Tensor& mask);

 private:
  at::Tensor middle(const at::Tensor& query, const at::Tensor& key);
  at::Tensor channel_weights(const at::Tensor& middle, const at::Tensor& mask);

  std::shared_ptr<NormedPair> of_query_;
  std::shared_ptr<NormedPair> of_regions_;
  nn::Linear middle_{nullptr};
  nn::Linear region_weight_{nullptr};
  nn::Linear channel_weight_{nullptr};
  nn::Dropout dropout_{nullptr};
  nn::Dropout middle_dropout_{nullptr};
};

/// The regions [B, L, dim], and their summary as one vector [B, dim].
struct Seen {
  at::Tensor tokens;
  at::Tensor global;
};

/// Attention layers with the global feature as query; each also updates the regions: LN(ReLU(W [r; global]) + r). The
/// final global feature combines the global features of all layers.
class XLinearEncoder final : public torch::nn::Module {
 public:
  explicit XLinearEncoder(const ModelOptions& options);
  Seen forward(const Seen& features, const at::Tensor& mask);

 private:
  struct Layer {
    std::shared_ptr<BilinearAttention> attention;
    std::shared_ptr<PairLinear> update;
    nn::LayerNorm norm{nullptr};
  };

  std::vector<Layer> layers_;
  nn::Linear join_{nullptr};
  nn::LayerNorm norm_{nullptr};
  nn::Dropout dropout_{nullptr};
};

/// The LSTM's h and c, and the context, each [N, dim].
struct LstmState {
  at::Tensor hidden;
  at::Tensor cell;
  at::Tensor context;
};

/// An LSTM that reads a word, the global feature and the last context. Its hidden state is the query of the first
/// attention layer, and each layer's result is the query of the next; GLU(W [found; hidden]) is the new context.
class XLinearDecoder final : public torch::nn::Module {
 public:
  explicit XLinearDecoder(const ModelOptions& options);

  /// The parts that depend only on the image: the global feature's part of the LSTM's gates [B, 4 dim], then key and
  /// value of each layer.
  std::vector<at::Tensor> look(const Seen& seen);
  /// The words' part of the LSTM's gates. Shapes: embedded [..., word_dim] to [..., 4 dim].
  at::Tensor gates_of_words(const at::Tensor& embedded);
  /// Computes one step. Shapes: gates [N, 4 dim], the words' part.
  LstmState step(const at::Tensor& gates, const LstmState& state, const Memory& memory);

 private:
  at::Tensor found(const at::Tensor& hidden, const Memory& memory);

  std::int64_t dim_;
  nn::Linear of_word_{nullptr};
  at::Tensor of_state_;  ///< [4 dim, 2 dim]: weights for the context and for h
  std::vector<std::shared_ptr<BilinearAttention>> attention_;
  nn::Linear join_{nullptr};
  nn::LayerNorm norm_{nullptr};
  nn::Linear context_{nullptr};
  nn::Dropout context_dropout_{nullptr};
};

/// The network. Dropout as in XLinearOptions; initial weights are Xavier-uniform, except the LSTM's, which are uniform.
class XLinearCaptioner final : public Captioner {
 public:
  explicit XLinearCaptioner(const ModelOptions& options);

  Memory encode(const at::Tensor& data, const std::vector<std::int64_t>& lengths) override;
  at::Tensor logits(const Memory& memory, const at::Tensor& inputs, double scheduled_sampling) override;
  DecoderState start(const Memory& memory) override;
  at::Tensor step(const Memory& memory, DecoderState& state, const at::Tensor& words) override;

 private:
  at::Tensor gates_of(const at::Tensor& words);
  [[nodiscard]] LstmState fresh(std::int64_t rows, const Memory& memory) const;

  ModelOptions options_;
  std::shared_ptr<FeatureEmbedding> features_;
  std::shared_ptr<XLinearEncoder> encoder_;
  torch::nn::Embedding words_{nullptr};
  nn::Dropout word_dropout_{nullptr};
  std::shared_ptr<XLinearDecoder> decoder_;
  nn::Dropout output_dropout_{nullptr};
  nn::Linear classifier_{nullptr};
};

}  // namespace lockstep::captioning
