// SPDX-License-Identifier: Apache-2.0
// Networks as ONNX: what is written, what is refused, and what ONNX Runtime computes from it.
#include <gmock/gmock.h>
#include <torch/nn.h>

#include <algorithm>
#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/nn/onnx.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"
#include "worker/checkpoint/onnx_parity.h"

namespace lockstep::worker {
namespace onnx_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Tensors = std::vector<torch::Tensor>;

/// Layers, each with its result. All of them are computed from the same arguments.
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

/// Arguments: pictures [N, 4, 8, 8], words' vectors [N, 6, 8], words [N, 6].
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
  layers.with("linear", Linear(8, 64), vectors);  // 2 KiB: small tensors stay as they are
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
  const auto layers = usual_layers();
  EXPECT_GE(layers->names.size(), 60U);
  const nn::NetworkFunction function = function_of(layers);
  const test::TempDir folder;
  for (const std::int64_t opset : {16, 17}) {
    write(folder / "model.onnx", nn::to_onnx(*layers, function, {.opset = opset}).model);
    EXPECT_THAT(compare_onnx(*runtime, folder / "model.onnx", function), HasSubstr("ONNX Runtime")) << opset;
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
              HasSubstr("something else from the file than the network: conv2d: differs by at most"));
  write(folder / "torn.onnx", "no protobuf");
  EXPECT_THAT(test::fault_of<ResourceError>([&] { (void)compare_onnx(*runtime, folder / "torn.onnx", function); }),
              HasSubstr("the runtime does not compute the model"));
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
  EXPECT_THAT(
      test::fault_of<UsageError>(
          [&] { (void)nn::to_onnx(*net, one([&](const torch::Tensor& x) { return net->forward(x).digamma(); })); }),
      AllOf(HasSubstr("the operator digamma, behind 0."), HasSubstr("no row for it"), HasSubstr("--to model.pt")));
  EXPECT_THAT(test::fault_of<UsageError>(
                  [&] { (void)nn::to_onnx(*net, one([](const torch::Tensor& x) { return x; }), {.opset = 9}); }),
              HasSubstr("opset 9 is not written"));
  net->train();
  EXPECT_THAT(
      test::fault_of<UsageError>([&] { (void)nn::to_onnx(*net, one([](const torch::Tensor& x) { return x; })); }),
      HasSubstr("training mode"));
}

TEST(Onnx, RowsHaveDifferentNames) {
  const std::vector<std::string> names = nn::onnx_operators();
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  EXPECT_THAT(names, ::testing::IsSupersetOf({"_convolution", "grid_sampler", "topk"}));
}

}  // namespace onnx_test
}  // namespace lockstep::worker
