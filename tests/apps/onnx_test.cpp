// SPDX-License-Identifier: Apache-2.0
// Networks as ONNX: the files, the errors, and the results in ONNX Runtime.
#include <gmock/gmock.h>
#include <torch/nn.h>

#include <algorithm>
#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/nn/onnx.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"
#include "worker/onnx/onnx_parity.h"

namespace lockstep::worker {
namespace onnx_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Tensors = std::vector<torch::Tensor>;

/// Layers that all take the same arguments and each give a result.
struct Layers : torch::nn::Module {
  std::vector<std::string> names;
  std::vector<std::function<torch::Tensor(const Tensors&)>> calls;

  template <class Layer, class Call>
  void with(const std::string& name, Layer layer, Call&& call) {
    register_module(name, layer);
    add(name, [layer, call](const Tensors& in) mutable { return call(layer, in); });
  }
  void add(const std::string& name, std::function<torch::Tensor(const Tensors&)> call) {
    names.push_back(name);
    calls.push_back(std::move(call));
  }
};

/// Arguments: images [N, 4, 8, 8], word vectors [N, 6, 8], words [N, 6].
nn::NetworkFunction function_of(const std::shared_ptr<Layers>& layers) {
  return {.inputs = {"pictures", "vectors", "words"},
          .outputs = layers->names,
          .example = [](std::int64_t batch) -> Tensors {
            torch::manual_seed(batch);
            return {torch::randn({batch, 4, 8, 8}), torch::randn({batch, 6, 8}), torch::randint(0, 10, {batch, 6})};
          },
          .run =
              [layers](const Tensors& in) {
                Tensors results;
                for (const auto& call : layers->calls) results.push_back(call(in));
                return results;
              }};
}

void on_pictures(Layers& layers) {
  using namespace torch::nn;
  const auto picture = [](auto& layer, const Tensors& in) { return layer(in[0]); };
  layers.with("conv2d", Conv2d(Conv2dOptions(4, 6, 3).padding(1).stride(2)), picture);
  layers.with("grouped", Conv2d(Conv2dOptions(4, 8, 3).groups(2).dilation(2).bias(false)), picture);
  layers.with("transposed", ConvTranspose2d(ConvTranspose2dOptions(4, 3, 3).stride(2).output_padding(1)), picture);
  layers.with("batch_norm", BatchNorm2d(4), picture);
  layers.with("instance_norm", InstanceNorm2d(InstanceNorm2dOptions(4).affine(true)), picture);
  layers.with("group_norm", GroupNorm(GroupNormOptions(2, 4)), picture);
  layers.with("max_pool", MaxPool2d(MaxPool2dOptions(3).stride(2).padding(1)), picture);
  layers.with("ceil_pool", MaxPool2d(MaxPool2dOptions(3).stride(2).ceil_mode(true)), picture);
  layers.with("average_pool", AvgPool2d(AvgPool2dOptions(2)), picture);
  layers.with("adaptive", AdaptiveAvgPool2d(AdaptiveAvgPool2dOptions(2)), picture);
  layers.with("nearest", Upsample(UpsampleOptions().scale_factor(std::vector<double>{2, 2}).mode(torch::kNearest)),
              picture);
  layers.with(
      "bilinear",
      Upsample(UpsampleOptions().size(std::vector<std::int64_t>{11, 5}).mode(torch::kBilinear).align_corners(false)),
      picture);
  layers.with(
      "corners",
      Upsample(UpsampleOptions().size(std::vector<std::int64_t>{11, 5}).mode(torch::kBilinear).align_corners(true)),
      picture);
  layers.with("constant_pad", ConstantPad2d(ConstantPad2dOptions({1, 2, 0, 3}, 7)), picture);
  layers.with("reflection_pad", ReflectionPad2d(ReflectionPad2dOptions(2)), picture);
  layers.with("replication_pad", ReplicationPad2d(ReplicationPad2dOptions(2)), picture);
  layers.with("pixel_shuffle", PixelShuffle(PixelShuffleOptions(2)), picture);
  layers.with("prelu", PReLU(PReLUOptions().num_parameters(4)), picture);
  layers.with("flatten", Flatten(), picture);
  layers.with("dropout", Dropout2d(), picture);
}

void on_vectors(Layers& layers) {
  using namespace torch::nn;
  const auto vectors = [](auto& layer, const Tensors& in) { return layer(in[1]); };
  layers.with("linear", Linear(8, 64), vectors);  // 2 KiB: small tensors are left as they are
  layers.with("linear_of_rows", Linear(8, 5), [](auto& layer, const Tensors& in) { return layer(in[1].select(1, 0)); });
  layers.with("layer_norm", LayerNorm(LayerNormOptions({8})), vectors);
  layers.with("conv1d", Conv1d(Conv1dOptions(6, 4, 3)), vectors);
  layers.with("pool1d", MaxPool1d(MaxPool1dOptions(2)), vectors);
  layers.with("embedding", Embedding(10, 4), [](auto& layer, const Tensors& in) { return layer(in[2]); });
  layers.with("attention", MultiheadAttention(8, 2), [](auto& layer, const Tensors& in) {
    const torch::Tensor time_first = in[1].transpose(0, 1);
    return std::get<0>(layer(time_first, time_first, time_first)).transpose(0, 1);
  });
  layers.with("encoder", TransformerEncoderLayer(TransformerEncoderLayerOptions(8, 2).dim_feedforward(16)),
              [](auto& layer, const Tensors& in) { return layer(in[1].transpose(0, 1)).transpose(0, 1); });
  layers.with("softmax", Softmax(SoftmaxOptions(-1)), vectors);
  layers.with("log_softmax", LogSoftmax(LogSoftmaxOptions(1)), vectors);
  layers.with("glu", GLU(GLUOptions(-1)), vectors);
}

void functions(Layers& layers) {
  using namespace torch::nn;
  const auto vectors = [](auto& layer, const Tensors& in) { return layer(in[1]); };
  layers.with("relu", ReLU(), vectors);
  layers.with("relu6", ReLU6(), vectors);
  layers.with("leaky_relu", LeakyReLU(), vectors);
  layers.with("elu", ELU(), vectors);
  layers.with("selu", SELU(), vectors);
  layers.with("celu", CELU(CELUOptions().alpha(1.5)), vectors);
  layers.with("gelu", GELU(), vectors);
  layers.with("gelu_tanh", GELU(GELUOptions().approximate("tanh")), vectors);
  layers.with("silu", SiLU(), vectors);
  layers.with("mish", Mish(), vectors);
  layers.with("sigmoid", Sigmoid(), vectors);
  layers.with("log_sigmoid", LogSigmoid(), vectors);
  layers.with("tanh", Tanh(), vectors);
  layers.with("softplus", Softplus(), vectors);
  layers.with("softsign", Softsign(), vectors);
  layers.with("hardtanh", Hardtanh(HardtanhOptions().min_val(-0.5).max_val(0.7)), vectors);
  layers.with("threshold", Threshold(0.1, -2), vectors);
}

void operators(Layers& layers) {
  layers.add("arithmetic",
             [](const Tensors& in) { return (2 - in[1]) / 3 + in[1].pow(2) * 0.5 - in[1].abs().rsqrt(); });
  layers.add("mixed_types", [](const Tensors& in) { return in[2] * 2 + in[2].to(torch::kFloat) / 4; });
  layers.add("comparisons", [](const Tensors& in) {
    return torch::where((in[1] > 0).logical_and(in[1].ne(1)), in[1], torch::zeros_like(in[1]));
  });
  layers.add("questions", [](const Tensors& in) { return torch::where(in[1].isnan(), in[1], in[1] * 2); });
  layers.add("masked", [](const Tensors& in) { return in[1].masked_fill(in[1] < 0, 9); });
  layers.add("sums", [](const Tensors& in) { return in[0].sum({2, 3}) + in[0].mean({2, 3}) - in[0].amax({2, 3}); });
  layers.add("norms", [](const Tensors& in) { return in[1].norm(2, {-1}, true) + in[1].norm(1, {-1}, true); });
  layers.add("greatest", [](const Tensors& in) {
    return std::get<0>(in[1].max(-1)) + in[1].argmax(-1) + std::get<0>(in[1].topk(3, -1)).sum(-1);
  });
  layers.add("joined", [](const Tensors& in) {
    return torch::cat({in[1], torch::stack({in[1].select(1, 0), in[1].select(1, 2)}, 1), in[1].narrow(1, 2, 3)}, 1);
  });
  layers.add("divided", [](const Tensors& in) { return in[1].split(3, 1)[1] * in[1].chunk(2, 1)[0]; });
  layers.add("shapes", [](const Tensors& in) {
    const std::int64_t batch = in[1].size(0);
    return (in[1].view({batch * 2, 3, 8}).permute({0, 2, 1}).reshape({batch, -1}) + torch::arange(48))
        .unsqueeze(1)
        .expand({batch, 3, 48});
  });
  layers.add("rolled", [](const Tensors& in) { return in[0].roll({1, -3}, {2, 3}); });
  layers.add("gathered", [](const Tensors& in) { return in[1].gather(1, in[2].clamp(0, 5).unsqueeze(-1)); });
  layers.add("products", [](const Tensors& in) { return torch::matmul(in[1], in[1].transpose(1, 2)).cumsum(1); });
}

void recurrent(Layers& layers) {
  using namespace torch::nn;
  const auto sequence = [](auto& layer, const Tensors& in) { return std::get<0>(layer(in[1])); };
  layers.with("lstm", LSTM(LSTMOptions(8, 5).batch_first(true)), sequence);
  layers.with("lstm_deep", LSTM(LSTMOptions(8, 5).batch_first(true).num_layers(3).bidirectional(true)), sequence);
  layers.with("lstm_time_first", LSTM(LSTMOptions(8, 5).bias(false)), [](auto& layer, const Tensors& in) {
    const auto [all, state] = layer(in[1].transpose(0, 1));
    return all.transpose(0, 1) + std::get<0>(state).transpose(0, 1) * std::get<1>(state).transpose(0, 1);
  });
  layers.with("gru", GRU(GRUOptions(8, 5).batch_first(true)), sequence);
  layers.with("gru_both_ways", GRU(GRUOptions(8, 5).bidirectional(true).num_layers(2).bias(false)),
              [](auto& layer, const Tensors& in) {
                const torch::Tensor x = in[1].transpose(0, 1);
                const auto [all, last] = layer(x, torch::ones({4, x.size(1), 5}));
                return torch::cat({all, last.view({2, -1, 10})}, 0).transpose(0, 1);
              });
  layers.with("rnn", RNN(RNNOptions(8, 5).batch_first(true)), sequence);
  layers.with("rnn_relu", RNN(RNNOptions(8, 5).batch_first(true).nonlinearity(torch::kReLU).bidirectional(true)),
              sequence);
  layers.with("lstm_cell", LSTMCell(8, 5), [](auto& layer, const Tensors& in) {
    const auto [h, c] = layer(in[1].select(1, 0));
    return h + std::get<1>(layer(in[1].select(1, 1), std::make_tuple(h, c)));
  });
  layers.with("gru_cell", GRUCell(8, 5), [](auto& layer, const Tensors& in) { return layer(in[1].select(1, 0)); });
  layers.with("rnn_cell", RNNCell(8, 5), [](auto& layer, const Tensors& in) { return layer(in[1].select(1, 0)); });
}

void distances(Layers& layers) {
  using namespace torch::nn;
  const auto halves = [](auto& layer, const Tensors& in) {
    return layer(in[1].narrow(-1, 0, 4), in[1].narrow(-1, 4, 4));
  };
  layers.with("bilinear_layer", Bilinear(4, 4, 3), halves);
  layers.with("bilinear_without_bias", Bilinear(BilinearOptions(4, 4, 3).bias(false)), halves);
  layers.with("cosine_similarity", CosineSimilarity(CosineSimilarityOptions().dim(2)), halves);
  layers.with("pairwise_distance", PairwiseDistance(), halves);
  layers.with("distance_of_order_3", PairwiseDistance(PairwiseDistanceOptions().p(3).keepdim(true)), halves);
  layers.with("bag", EmbeddingBag(EmbeddingBagOptions(10, 4).mode(torch::kSum)),
              [](auto& layer, const Tensors& in) { return layer->forward(in[2], {}, in[1].select(2, 0)); });
  layers.with("bag_of_means", EmbeddingBag(10, 4), [](auto& layer, const Tensors& in) { return layer(in[2]); });
  layers.with("greatest_of_a_bag", EmbeddingBag(EmbeddingBagOptions(10, 4).mode(torch::kMax)),
              [](auto& layer, const Tensors& in) { return layer(in[2]); });
}

void more_poolings(Layers& layers) {
  using namespace torch::nn;
  const auto picture = [](auto& layer, const Tensors& in) { return layer(in[0]); };
  const auto vectors = [](auto& layer, const Tensors& in) { return layer(in[1]); };
  const auto volume = [](auto& layer, const Tensors& in) { return layer(in[0].view({-1, 2, 2, 8, 8})); };
  layers.with("pool3d", MaxPool3d(MaxPool3dOptions({1, 2, 3}).padding({0, 1, 1}).dilation({1, 2, 1})), volume);
  layers.with("pool_that_ends_in_nothing",
              MaxPool2d(MaxPool2dOptions(2).stride(3).padding(1).dilation(2).ceil_mode(true)), picture);
  layers.with("average1d", AvgPool1d(AvgPool1dOptions(3).stride(2).padding(1)), vectors);
  layers.with("average3d", AvgPool3d(AvgPool3dOptions(2)), volume);
  layers.with("average_to_the_ceiling", AvgPool2d(AvgPool2dOptions(3).stride(2).padding(1).ceil_mode(true)), picture);
  layers.with("average_of_what_is_inside",
              AvgPool2d(AvgPool2dOptions(3).stride(3).padding(1).ceil_mode(true).count_include_pad(false)), picture);
  layers.with("average_by_5", AvgPool2d(AvgPool2dOptions(3).divisor_override(5)), picture);
  layers.with("power", LPPool2d(LPPool2dOptions(2, 2)), picture);
  layers.with("power1d", LPPool1d(LPPool1dOptions(3, 2)),
              [](auto& layer, const Tensors& in) { return layer(in[1].abs()); });
  layers.with("adaptive_uneven", AdaptiveAvgPool2d(AdaptiveAvgPool2dOptions({3, 5})), picture);
  layers.with("adaptive1d", AdaptiveAvgPool1d(AdaptiveAvgPool1dOptions(3)), vectors);
  layers.with("adaptive3d", AdaptiveAvgPool3d(AdaptiveAvgPool3dOptions({1, 3, 5})), volume);
  layers.with("adaptive_greatest", AdaptiveMaxPool2d(AdaptiveMaxPool2dOptions(4)), picture);
  layers.with("adaptive_greatest_uneven", AdaptiveMaxPool2d(AdaptiveMaxPool2dOptions({3, 5})), picture);
  layers.with("adaptive_greatest1d", AdaptiveMaxPool1d(AdaptiveMaxPool1dOptions(3)), vectors);
  layers.with("adaptive_greatest3d", AdaptiveMaxPool3d(AdaptiveMaxPool3dOptions({1, 3, 4})), volume);
  MaxPool2d pool(MaxPool2dOptions(2));
  layers.with("unpool", MaxUnpool2d(MaxUnpool2dOptions(2)), [pool](auto& layer, const Tensors& in) mutable {
    const auto [greatest, places] = pool->forward_with_indices(in[0]);
    return layer(greatest, places);
  });
  MaxPool1d pool1d(MaxPool1dOptions(2));
  layers.with("unpool1d", MaxUnpool1d(MaxUnpool1dOptions(2)), [pool1d](auto& layer, const Tensors& in) mutable {
    const auto [greatest, places] = pool1d->forward_with_indices(in[1]);
    return layer(greatest, places);
  });
  MaxPool3d pool3d(MaxPool3dOptions(2));
  layers.with("unpool3d", MaxUnpool3d(MaxUnpool3dOptions(2)), [pool3d](auto& layer, const Tensors& in) mutable {
    const auto [greatest, places] = pool3d->forward_with_indices(in[0].view({-1, 2, 2, 8, 8}));
    return layer(greatest, places);
  });
}

void more_windows(Layers& layers) {
  using namespace torch::nn;
  const auto picture = [](auto& layer, const Tensors& in) { return layer(in[0]); };
  const auto vectors = [](auto& layer, const Tensors& in) { return layer(in[1]); };
  const auto volume = [](auto& layer, const Tensors& in) { return layer(in[0].view({-1, 2, 2, 8, 8})); };
  layers.with("conv3d", Conv3d(Conv3dOptions(2, 3, {1, 3, 3}).padding({0, 1, 1})), volume);
  layers.with("same", Conv2d(Conv2dOptions(4, 3, {4, 3}).padding(torch::kSame).dilation({1, 2})), picture);
  layers.with("circular", Conv2d(Conv2dOptions(4, 3, 3).padding(1).padding_mode(torch::kCircular)), picture);
  layers.with("transposed1d", ConvTranspose1d(ConvTranspose1dOptions(6, 3, 3).stride(2)), vectors);
  layers.with("transposed3d", ConvTranspose3d(ConvTranspose3dOptions(2, 3, 2).stride(2)), volume);
  layers.with("unfold", Unfold(UnfoldOptions({2, 3}).padding(1).stride(2).dilation({1, 2})), picture);
  layers.with("fold", Fold(FoldOptions({6, 5}, {2, 2}).stride({2, 3})),
              [](auto& layer, const Tensors& in) { return layer(in[1].transpose(1, 2)); });
  layers.with("pixel_unshuffle", PixelUnshuffle(PixelUnshuffleOptions(2)), picture);
  layers.with("local_response", LocalResponseNorm(LocalResponseNormOptions(3)), picture);
  layers.with("constant_pad1d", ConstantPad1d(ConstantPad1dOptions({1, 2}, 3)), vectors);
  layers.with("constant_pad3d", ConstantPad3d(ConstantPad3dOptions({1, 0, 0, 2, 1, 1}, 3)), volume);
  layers.with("zero_pad", ZeroPad2d(ZeroPad2dOptions({1, -2, 3, 0})), picture);
  layers.with("reflection_pad1d", ReflectionPad1d(ReflectionPad1dOptions(2)), vectors);
  layers.with("reflection_pad3d", ReflectionPad3d(ReflectionPad3dOptions(1)), volume);
  layers.with("replication_pad1d", ReplicationPad1d(ReplicationPad1dOptions(2)), vectors);
  layers.with("replication_pad3d", ReplicationPad3d(ReplicationPad3dOptions(1)), volume);
}

void other_sizes(Layers& layers) {
  using namespace torch::nn;
  const auto picture = [](auto& layer, const Tensors& in) { return layer(in[0]); };
  const auto vectors = [](auto& layer, const Tensors& in) { return layer(in[1]); };
  const auto volume = [](auto& layer, const Tensors& in) { return layer(in[0].view({-1, 2, 2, 8, 8})); };
  const auto scaled_by = [](const std::vector<double>& factor) { return UpsampleOptions().scale_factor(factor); };
  const auto to = [](const std::vector<std::int64_t>& size) { return UpsampleOptions().size(size); };
  layers.with("nearest1d", Upsample(to({5}).mode(torch::kNearest)), vectors);
  layers.with("nearest3d", Upsample(to({3, 5, 9}).mode(torch::kNearest)), volume);
  layers.with("nearest_by_a_part", Upsample(scaled_by({1.7, 0.6}).mode(torch::kNearest)), picture);
  layers.with("linear1d", Upsample(to({13}).mode(torch::kLinear).align_corners(false)), vectors);
  layers.with("linear_by_a_part", Upsample(scaled_by({1.3}).mode(torch::kLinear).align_corners(false)), vectors);
  layers.with("bilinear_by_a_part", Upsample(scaled_by({1.3, 0.7}).mode(torch::kBilinear).align_corners(false)),
              picture);
  // 8 * 1.1 rounds down to 8, in which case libtorch copies the input in linear modes
  layers.with("nearest_by_little", Upsample(scaled_by({1.1, 2.1}).mode(torch::kNearest)), picture);
  layers.with("nearest_of_one_channel", Upsample(scaled_by({1.1, 2.1}).mode(torch::kNearest)),
              [](auto& layer, const Tensors& in) { return layer(in[0].narrow(1, 0, 1).contiguous()); });
  layers.with("nearest_to_21", Upsample(to({21, 13}).mode(torch::kNearest)), picture);
  for (const auto& [name, factor] : {std::pair{"nearest_of_last_channels", 1.7}, {"of_last_channels_by_little", 1.1}}) {
    layers.with(name, Upsample(scaled_by({factor, 2.1 * factor}).mode(torch::kNearest)),
                [](auto& layer, const Tensors& in) {
                  return layer(in[0].permute({0, 3, 1, 2}));
                });
  }
  layers.with("nearest_of_repeated_rows", Upsample(to({5, 13}).mode(torch::kNearest)),
              [](auto& layer, const Tensors& in) {
                return layer(layer(in[0].movedim(3, 1).select(2, 1).unsqueeze(2).expand({-1, 8, 3, 8})));
              });
  layers.with("bilinear_by_little", Upsample(scaled_by({1.1, 1.2}).mode(torch::kBilinear).align_corners(false)),
              picture);
  layers.with("bicubic_by_little", Upsample(scaled_by({1.1, 1.2}).mode(torch::kBicubic).align_corners(false)), picture);
  layers.with("bilinear_to_one", Upsample(to({1, 3}).mode(torch::kBilinear).align_corners(false)), picture);
  layers.with("trilinear", Upsample(to({3, 5, 9}).mode(torch::kTrilinear).align_corners(false)), volume);
  layers.with("trilinear_corners", Upsample(to({3, 5, 9}).mode(torch::kTrilinear).align_corners(true)), volume);
  layers.with("bicubic", Upsample(to({11, 5}).mode(torch::kBicubic).align_corners(false)), picture);
  layers.with("bicubic_corners", Upsample(to({11, 5}).mode(torch::kBicubic).align_corners(true)), picture);
  layers.add("nearest_exact", [](const Tensors& in) {
    using namespace torch::nn::functional;
    return interpolate(in[0],
                       InterpolateFuncOptions().size(std::vector<std::int64_t>{11, 5}).mode(torch::kNearestExact));
  });
  layers.add("area", [](const Tensors& in) {
    using namespace torch::nn::functional;
    return interpolate(in[0], InterpolateFuncOptions().size(std::vector<std::int64_t>{3, 5}).mode(torch::kArea));
  });
}

void more_norms(Layers& layers) {
  using namespace torch::nn;
  const auto vectors = [](auto& layer, const Tensors& in) { return layer(in[1]); };
  const auto volume = [](auto& layer, const Tensors& in) { return layer(in[0].view({-1, 2, 2, 8, 8})); };
  layers.with("batch_norm1d", BatchNorm1d(6), vectors);
  layers.with("batch_norm_of_rows", BatchNorm1d(8),
              [](auto& layer, const Tensors& in) { return layer(in[1].select(1, 0)); });
  layers.with("batch_norm3d", BatchNorm3d(BatchNorm3dOptions(2).affine(false)), volume);
  layers.with("instance_norm1d", InstanceNorm1d(6), vectors);
  layers.with("instance_norm3d", InstanceNorm3d(2), volume);
  layers.with("instance_norm_of_statistics", InstanceNorm2d(InstanceNorm2dOptions(4).track_running_stats(true)),
              [](auto& layer, const Tensors& in) { return layer(in[0]); });
  layers.with("group_norm_of_vectors", GroupNorm(GroupNormOptions(3, 6).affine(false)), vectors);
  layers.with("layer_norm_of_all", LayerNorm(LayerNormOptions({6, 8}).elementwise_affine(false)), vectors);
}

void more_functions(Layers& layers) {
  using namespace torch::nn;
  const auto vectors = [](auto& layer, const Tensors& in) { return layer(in[1]); };
  const auto picture = [](auto& layer, const Tensors& in) { return layer(in[0]); };
  layers.with("hardshrink", Hardshrink(0.4), vectors);
  layers.with("softshrink", Softshrink(0.4), vectors);
  layers.with("tanhshrink", Tanhshrink(), vectors);
  layers.with("softmin", Softmin(SoftminOptions(1)), vectors);
  layers.with("softmax2d", Softmax2d(), picture);
  layers.with("rrelu", RReLU(), vectors);
  layers.with("softplus_steep", Softplus(SoftplusOptions().beta(3)), vectors);
  layers.with("alpha_dropout", AlphaDropout(), vectors);
  layers.with("feature_alpha_dropout", FeatureAlphaDropout(), picture);
  layers.with("dropout3d", Dropout3d(), [](auto& layer, const Tensors& in) {
    return layer(in[0].view({-1, 2, 2, 8, 8}));
  });
  layers.with("identity", Identity(), vectors);
  layers.with("unflatten", Unflatten(UnflattenOptions(2, {2, 4})), vectors);
  layers.with("prelu_of_one", PReLU(), vectors);
}

void transformers(Layers& layers) {
  using namespace torch::nn;
  const auto in_time = [](const Tensors& in) { return in[1].transpose(0, 1); };
  layers.with("decoder_layer", TransformerDecoderLayer(TransformerDecoderLayerOptions(8, 2).dim_feedforward(16)),
              [in_time](auto& layer, const Tensors& in) { return layer(in_time(in), in_time(in)).transpose(0, 1); });
  layers.with("encoder_of_two",
              TransformerEncoder(TransformerEncoderOptions(
                  TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).activation(torch::kGELU), 2)),
              [in_time](auto& layer, const Tensors& in) { return layer(in_time(in)).transpose(0, 1); });
  layers.with(
      "decoder_of_two",
      TransformerDecoder(TransformerDecoderOptions(TransformerDecoderLayerOptions(8, 2).dim_feedforward(16), 2)),
      [in_time](auto& layer, const Tensors& in) { return layer(in_time(in), in_time(in)).transpose(0, 1); });
  layers.with("transformer", Transformer(TransformerOptions(8, 2, 1, 1).dim_feedforward(16)),
              [in_time](auto& layer, const Tensors& in) {
                const torch::Tensor mask = TransformerImpl::generate_square_subsequent_mask(6);
                return layer(in_time(in), in_time(in), mask, mask).transpose(0, 1);
              });
  layers.with("attention_without", MultiheadAttention(MultiheadAttentionOptions(8, 2).bias(false).add_zero_attn(true)),
              [in_time](auto& layer, const Tensors& in) {
                return std::get<0>(layer(in_time(in), in_time(in), in_time(in), in[2] > 8)).transpose(0, 1);
              });
}

void more_operators(Layers& layers) {
  layers.add("logarithms", [](const Tensors& in) {
    const torch::Tensor x = in[1].abs() + 0.1;
    return x.log2() + x.log10() + x.log1p() + in[1].exp2() + in[1].expm1() + in[1].square() + in[1].asinh();
  });
  layers.add("whole_parts", [](const Tensors& in) {
    return in[1].trunc() + in[1].remainder(0.7) + in[1].fmod(0.7) + torch::floor_divide(in[2], 3).unsqueeze(-1) +
           (in[2] - 5).remainder(3).unsqueeze(-1) + torch::div(in[1], 0.3, "trunc") + torch::div(in[1], 0.3, "floor") +
           torch::div(in[2] - 5, 3, "floor").unsqueeze(-1);
  });
  layers.add("spread", [](const Tensors& in) {
    return in[0].var({2, 3}, true, true) + in[0].std({2, 3}, false, true) + in[0].sub(in[0].mean({2, 3}, true));
  });
  layers.add("sorted", [](const Tensors& in) {
    const auto [values, places] = in[1].sort(-1, true);
    return values + places + in[1].argsort(std::int64_t{1});
  });
  layers.add("true_or_false", [](const Tensors& in) {
    return (((in[1] > 0).any(2) & ~(in[1] > 2).all(2)) | (in[1].select(2, 0) > 1)).to(torch::kFloat);
  });
  layers.add("turned", [](const Tensors& in) {
    return in[0].flip({2, 3}) + in[0].movedim(2, 3) + in[0].swapaxes(2, 3);
  });
  layers.add("triangles", [](const Tensors& in) { return in[0].tril(1) + in[0].triu(-2); });
  layers.add("einsum", [](const Tensors& in) { return torch::einsum("ntc, nsc -> nts", {in[1], in[1]}); });
  layers.add("scattered", [](const Tensors& in) {
    return torch::zeros({in[1].size(0), 10}).scatter(1, in[2].slice(1, 0, 1), in[1].select(2, 0)) +
           torch::zeros({in[1].size(0), 10}).scatter(1, in[2], 2.5);
  });
  layers.add("repeated", [](const Tensors& in) {
    return in[1].repeat_interleave(3, 1) + in[1].repeat({1, 3, 1}).lerp(torch::ones({18, 8}), 0.3);
  });
  layers.add("norm_of_order_3", [](const Tensors& in) {
    return in[1].norm(3, {-1}, true) + torch::linalg_vector_norm(in[1], INFINITY, torch::IntArrayRef{-1}, true);
  });
  layers.add("shuffled", [](const Tensors& in) { return torch::channel_shuffle(in[0], 2); });
}

std::shared_ptr<Layers> rarer_layers() {
  torch::manual_seed(1);
  auto layers = std::make_shared<Layers>();
  for (const auto add : {recurrent, distances, more_poolings, more_windows, other_sizes, more_norms, more_functions,
                         transformers, more_operators})
    add(*layers);
  layers->eval();
  return layers;
}

std::shared_ptr<Layers> usual_layers() {
  torch::manual_seed(1);
  auto layers = std::make_shared<Layers>();
  on_pictures(*layers);
  on_vectors(*layers);
  functions(*layers);
  operators(*layers);
  layers->eval();
  return layers;
}

void write(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

TEST(Onnx, UsualLayersComputeTheSameInOnnxRuntime) {
  const auto runtime = find_onnx_runtime("");
  if (!runtime) GTEST_SKIP() << "no ONNX Runtime in python3 or node";
  const test::TempDir folder;
  for (const auto& layers : {usual_layers(), rarer_layers()}) {
    EXPECT_GE(layers->names.size(), 60U);
    const nn::NetworkFunction function = function_of(layers);
    for (const std::int64_t opset : {16, 17}) {
      write(folder / "model.onnx", nn::to_onnx(*layers, function, {.opset = opset}).model);
      EXPECT_THAT(compare_onnx(*runtime, folder / "model.onnx", function), HasSubstr("ONNX Runtime")) << opset;
    }
  }
}

TEST(Onnx, WeightsBesideTheModelAndOf16BitsComputeTheSame) {
  const auto runtime = find_onnx_runtime("");
  if (!runtime) GTEST_SKIP() << "no ONNX Runtime in python3 or node";
  const auto layers = usual_layers();
  const nn::NetworkFunction function = function_of(layers);
  const test::TempDir folder;
  const nn::OnnxFile whole = nn::to_onnx(*layers, function);
  const nn::OnnxFile parts = nn::to_onnx(*layers, function, {.tensors_file = "model.onnx.data", .most_bytes = 0});
  EXPECT_TRUE(whole.tensors.empty());
  EXPECT_FALSE(parts.tensors.empty());
  EXPECT_LT(parts.model.size(), whole.model.size());
  write(folder / "model.onnx", parts.model);
  write(folder / "model.onnx.data", parts.tensors);
  EXPECT_NO_THROW((void)compare_onnx(*runtime, folder / "model.onnx", function));
  const nn::OnnxFile half = nn::to_onnx(*layers, function, {.half = true});
  EXPECT_LT(half.model.size(), whole.model.size());
  write(folder / "half.onnx", half.model);
  EXPECT_NO_THROW((void)compare_onnx(*runtime, folder / "half.onnx", function));
}

TEST(Onnx, AModelThatComputesSomethingElseIsFound) {
  const auto runtime = find_onnx_runtime("");
  if (!runtime) GTEST_SKIP() << "no ONNX Runtime in python3 or node";
  const auto layers = usual_layers();
  const nn::NetworkFunction function = function_of(layers);
  const test::TempDir folder;
  write(folder / "model.onnx", nn::to_onnx(*layers, function).model);
  const torch::NoGradGuard no_grad;
  layers->named_parameters()["conv2d.weight"].mul_(1.001);
  EXPECT_THAT(test::fault_of<DataError>([&] { (void)compare_onnx(*runtime, folder / "model.onnx", function); }),
              HasSubstr("differ from the network's: conv2d: differs by at most"));
  write(folder / "torn.onnx", "no protobuf");
  EXPECT_THAT(test::fault_of<ResourceError>([&] { (void)compare_onnx(*runtime, folder / "torn.onnx", function); }),
              HasSubstr("the runtime cannot run the model"));
}

nn::NetworkFunction one(const std::function<torch::Tensor(const torch::Tensor&)>& run) {
  return {.inputs = {"x"},
          .outputs = {"y"},
          .example =
              [](std::int64_t batch) {
                return Tensors{torch::rand({batch, 4})};
              },
          .run = [run](const Tensors& in) { return Tensors{run(in[0])}; }};
}

TEST(Onnx, AnOperatorWithoutARowIsNamedWithThePlaceInTheNetwork) {
  torch::nn::Sequential net(torch::nn::Linear(4, 4));
  net->eval();
  EXPECT_THAT(test::fault_of<UsageError>([&] {
                (void)nn::to_onnx(*net, one([&](const torch::Tensor& x) { return net->forward(x).digamma(); }));
              }),
              AllOf(HasSubstr("the operator digamma, after 0."), HasSubstr("the exporter does not support it"),
                    HasSubstr("--to model.pt")));
  EXPECT_THAT(test::fault_of<UsageError>(
                  [&] { (void)nn::to_onnx(*net, one([](const torch::Tensor& x) { return x; }), {.opset = 9}); }),
              HasSubstr("opset 9 is not supported"));
  net->train();
  EXPECT_THAT(
      test::fault_of<UsageError>([&] { (void)nn::to_onnx(*net, one([](const torch::Tensor& x) { return x; })); }),
      HasSubstr("training mode"));
}

/// The error from exporting a function.
std::string refusal(const std::function<torch::Tensor(const torch::Tensor&)>& run) {
  torch::nn::Sequential net(torch::nn::Linear(4, 4));
  net->eval();
  return test::fault_of<UsageError>(
      [&] { (void)nn::to_onnx(*net, one([&](const torch::Tensor& x) { return run(net->forward(x)); })); });
}

/// A layer outside any network: its weights are constants.
template <class Layer>
Layer frozen(Layer layer) {
  for (torch::Tensor& parameter : layer->parameters()) parameter.set_requires_grad(false);
  layer->eval();
  return layer;
}

TEST(Onnx, LayersThatCannotBeWrittenSayWhyAndWhere) {
  using namespace torch::nn;
  const auto refuses = [](const std::string& op, const std::string& why,
                          const std::function<torch::Tensor(const torch::Tensor&)>& run) {
    EXPECT_THAT(refusal(run), AllOf(HasSubstr("the operator " + op + ", after 0."), HasSubstr(why),
                                    HasSubstr("other operators, or export TorchScript")))
        << op;
  };
  const auto picture = [](const torch::Tensor& x) { return x.view({-1, 1, 2, 2}).repeat({1, 2, 4, 4}); };
  const auto sequence = [](const torch::Tensor& x) { return x.unsqueeze(1).repeat({1, 5, 1}); };
  refuses("rand", "does not support it", [&](const torch::Tensor& x) {
    return FractionalMaxPool2d(FractionalMaxPool2dOptions(2).output_size(3))->forward(picture(x));
  });
  LSTM projected = frozen(LSTM(LSTMOptions(4, 3).proj_size(2)));
  refuses("lstm", "it projects its hidden state",
          [&](const torch::Tensor& x) { return std::get<0>(projected(sequence(x).transpose(0, 1))).transpose(0, 1); });
  GRU dropping = frozen(GRU(GRUOptions(4, 3).num_layers(2).dropout(0.5)));
  dropping->train();
  refuses("gru", "it applies dropout", [&](const torch::Tensor& x) { return std::get<0>(dropping(sequence(x))); });
  refuses("dropout", "it applies dropout", [](const torch::Tensor& x) { return torch::dropout(x, 0.5, true); });
  refuses("rrelu", "it draws random numbers", [](const torch::Tensor& x) { return torch::rrelu(x, 0.1, 0.3, true); });
  BatchNorm2d of_batch = frozen(BatchNorm2d(BatchNorm2dOptions(2).track_running_stats(false)));
  refuses("batch_norm", "it uses the statistics of the batch",
          [&](const torch::Tensor& x) { return of_batch(picture(x)); });
  refuses("index", "it indexes by a mask", [](const torch::Tensor& x) { return x.index({x > 0}).sum() + x; });
  refuses("var", "it reduces over the batch", [](const torch::Tensor& x) { return x - x.var(0); });
  refuses("sort", "it sorts the batch", [](const torch::Tensor& x) { return std::get<0>(x.sort(0)); });
  refuses("chunk", "it divides the batch", [](const torch::Tensor& x) { return x.repeat({2, 1}).chunk(2, 0)[1]; });
  EmbeddingBag padded = frozen(EmbeddingBag(EmbeddingBagOptions(9, 4).padding_idx(0)));
  refuses("embedding_bag", "skip an index",
          [&](const torch::Tensor& x) { return padded->forward(x.abs().clamp(0, 8).to(torch::kLong)); });
  refuses("adaptive_max_pool2d", "windows have different sizes", [&](const torch::Tensor& x) {
    return std::get<1>(torch::adaptive_max_pool2d(picture(x), {3, 5}));
  });
}

TEST(Onnx, ALayerThatWritesIntoItselfIsFoundByTheComparisonBeforeAFileIsMade) {
  torch::nn::CrossMapLRN2d layer(3);
  const std::string said = refusal([&](const torch::Tensor& x) {
    return layer(x.abs().view({-1, 4, 1, 1}).repeat({1, 1, 3, 3}));
  });
  EXPECT_THAT(said, HasSubstr("the network computes something else"));
}

TEST(Onnx, AParameterOfNoNetworkIsNamedAsWhatIsWrong) {
  torch::nn::Linear stranger(4, 4);
  EXPECT_THAT(refusal([&](const torch::Tensor& x) { return stranger(x); }),
              AllOf(HasSubstr("a parameter that does not belong to the model"), HasSubstr("register_module")));
}

TEST(Onnx, RowsHaveDifferentNames) {
  const std::vector<std::string> names = nn::onnx_operators();
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  EXPECT_THAT(names, ::testing::IsSupersetOf({"_convolution", "grid_sampler", "topk"}));
}

}  // namespace onnx_test
}  // namespace lockstep::worker
