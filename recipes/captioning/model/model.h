// SPDX-License-Identifier: Apache-2.0
// The interface of a captioning network to the rest of the recipe: it encodes images once, computes the words of many
// captions either all at once (training) or word by word (search), and can reorder its state. x_linear.h and
// transformer.h implement it.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::captioning {

enum class ModelType {
  kXLinear,     ///< X-linear attention, LSTM decoder
  kTransformer  ///< window attention with a global token, transformer decoder
};

/// Converts "x_linear" and "transformer" to types and back. Throws: UsageError listing the names.
[[nodiscard]] ModelType model_type_from_name(std::string_view name);
[[nodiscard]] std::string to_string(ModelType type);

/// The networks that compute image features.
enum class BackboneType {
  kNone,   ///< the inputs are already features
  kSmall,  ///< a few 3x3 convolutions, for synthetic scenes
  kResNet  ///< common::ResNet
};

/// Converts "none", "small" and "resnet" to types and back. Throws: UsageError listing the names.
[[nodiscard]] BackboneType backbone_type_from_name(std::string_view name);
[[nodiscard]] std::string to_string(BackboneType type);

struct BackboneOptions {
  BackboneType type = BackboneType::kNone;
  std::int64_t layers = 18;         ///< number of layers of the ResNet
  std::int64_t output_stride = 16;  ///< side of a grid cell in pixels: 4 to 32 for small; 8, 16 or 32 for resnet
  std::int64_t width = 32;          ///< small: channels of the first convolution; each halving of the size doubles them
};

/// Options for the X-linear network only.
struct XLinearOptions {
  std::int64_t word_dim = 0;    ///< width of the word embedding; 0 means dim
  std::int64_t middle_dim = 0;  ///< width per head of m (BilinearAttention); 0 means half of dim / heads
  double word_dropout = -1;  ///< dropout on word embeddings; a negative value (also below) means ModelOptions::dropout
  double feature_dropout = -1;    ///< dropout after the embedding of features
  bool celu_of_words = false;     ///< apply CELU(1.3) after the word embedding
  double attention_dropout = -1;  ///< dropout on the bilinear attention's result
  double middle_dropout = -1;     ///< dropout on m (BilinearAttention)
  double update_dropout = -1;     ///< dropout on the encoder's updates to regions
  double output_dropout = -1;     ///< dropout on the context that the LSTM reads, and before the classifier
};

struct ModelOptions {
  ModelType type = ModelType::kTransformer;
  std::int64_t vocabulary = 0;  ///< number of ids: words + 1
  BackboneOptions backbone = {};
  std::int64_t feature_width = 2048;  ///< width D of [L, D] features; unused with a backbone
  std::int64_t dim = 512;
  std::int64_t heads = 8;
  std::int64_t encoder_layers = 0;   ///< number of layers; 0 means 3 for a transformer, 4 for X-linear
  std::int64_t decoder_layers = 0;   ///< number of layers; 0 means 3 for a transformer, 1 for X-linear
  std::int64_t feed_forward = 2048;  ///< transformer: hidden width of the feed-forward layers
  double dropout = 0.1;
  std::int64_t window = 6;  ///< transformer: side of the encoder's windows; 0 means plain attention over all tokens
  std::int64_t grid_height = 0;  ///< without a backbone, height of the feature grid, for windows; both 0 means a square
  std::int64_t grid_width = 0;
  XLinearOptions x_linear = {};
};

/// The encoded features of B images, and every part of the decoder that depends only on them.
struct Memory {
  at::Tensor tokens;              ///< [B, L, dim]
  at::Tensor global;              ///< [B, dim]
  at::Tensor mask;                ///< bool [B, L], true for valid tokens; undefined if all are valid
  std::vector<at::Tensor> extra;  ///< tensors of the decoder; the first dimension is B
  std::int64_t copies = 1;        ///< number of word rows per image

  /// The number N of word rows: image b has rows b * copies to (b + 1) * copies - 1.
  [[nodiscard]] std::int64_t rows() const { return tokens.size(0) * copies; }
};

/// Returns the memory without gradients.
[[nodiscard]] Memory detached(const Memory& memory);
/// Returns the memory for `copies` times as many word rows, without copying tensors.
[[nodiscard]] Memory repeated(const Memory& memory, std::int64_t copies);

/// The state of a search for N captions.
struct DecoderState {
  std::vector<at::Tensor> tensors;  ///< each [N, ...]
  std::int64_t position = 0;        ///< words read so far
};

/// Row i of the result is row rows[i] of `state`. Rows may be repeated or dropped, but each row must stay with its
/// image, because the memory is not reordered. Shapes: rows int64 [N'].
[[nodiscard]] DecoderState select_rows(const DecoderState& state, const at::Tensor& rows);

/// The interface of a captioning network. N word rows belong to a memory of B images, and N must be a multiple of B:
/// rows are in image order, as in Memory::rows(), for any `copies`.
///
/// Dropout and sampling draw from libtorch's generator. All methods run under Autocast, on any device, with or without
/// gradients; in training mode every parameter gets a gradient from encode() and logits(). Thread-safe: no.
class Captioner : public torch::nn::Module {
 public:
  /// Shapes: data float [B, 3, H, W] with a backbone, otherwise [B, L, D]; lengths: the number of feature rows of each
  ///         image; if empty, all L.
  /// Throws: UsageError if the width or number of dimensions does not match, or the grid's number of cells is not L.
  [[nodiscard]] virtual Memory encode(const at::Tensor& data, const std::vector<std::int64_t>& lengths) = 0;

  /// The logits of log_probs(), in float32, or bfloat16 under Autocast.
  [[nodiscard]] virtual at::Tensor logits(const Memory& memory, const at::Tensor& inputs,
                                          double scheduled_sampling) = 0;

  /// Log-probabilities of the next word after each of `inputs` (teacher forcing), float32.
  ///
  /// scheduled_sampling: the probability that a word after the first is drawn from the network's distribution instead
  /// of taken from `inputs`. X-linear draws step by step; the transformer draws in a first pass without gradients.
  /// Shapes: inputs int64 [N, T], with 0 in the first column; returns [N, T, vocabulary].
  /// Source: Bengio et al., Scheduled Sampling for Sequence Prediction, 2015; Mihaylova and Martins, Scheduled Sampling
  ///         for Transformers, 2019.
  [[nodiscard]] at::Tensor log_probs(const Memory& memory, const at::Tensor& inputs, double scheduled_sampling = 0);

  /// The state before the first word of memory.rows() captions.
  [[nodiscard]] virtual DecoderState start(const Memory& memory) = 0;

  /// Reads one more word of each caption and returns the log-probabilities of the next word. Up to rounding, they equal
  /// the corresponding column of log_probs() for the same words. The first words are 0.
  /// Shapes: words int64 [N]; returns float32 [N, vocabulary].
  [[nodiscard]] virtual at::Tensor step(const Memory& memory, DecoderState& state, const at::Tensor& words) = 0;
};

/// Creates a network. Initial weights come from libtorch's generator. Throws: UsageError if sizes do not match.
[[nodiscard]] std::shared_ptr<Captioner> make_captioner(const ModelOptions& options);

}  // namespace lockstep::captioning
