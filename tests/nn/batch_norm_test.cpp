// SPDX-License-Identifier: Apache-2.0
// Batch norm, by itself and with the operations after it.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/norm_act.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/random.h"
#include "nn/vector/dropout_bits.h"

namespace lockstep::nn {
namespace batch_norm_test {

using ::testing::HasSubstr;
using torch::nn::BatchNormOptions;

// Unsynced, lockstep::nn::BatchNorm equals torch::nn::BatchNorm bit for bit. Synced, with fake replicas, it is batch
// norm over their concatenated batches; tests/parallel/sync_batch_norm_test.cpp has real replicas.

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes() || a.strides() != b.strides()) return false;
  const at::Tensor left = a.detach().contiguous();
  const at::Tensor right = b.detach().contiguous();
  return std::memcmp(left.data_ptr(), right.data_ptr(), left.nbytes()) == 0;
}

at::Tensor images(std::uint64_t seed, std::int64_t count, std::int64_t channels = 5) {
  auto generator = make_generator(seed);
  return at::randn({count, channels, 6, 7}, generator) * 3 + 2;
}

/// Sets the parameters of `norm` to values other than ones and zeros.
template <class Norm>
void randomize(Norm& norm) {
  seed_all(11);
  const at::AutoDispatchBelowAutograd below;
  for (at::Tensor& parameter : norm->parameters()) parameter.copy_(at::rand(parameter.sizes()) + 0.5);
}

template <class Ours, class Theirs>
void expect_same(const BatchNormOptions& options, const at::Tensor& input) {
  Ours ours(options);
  Theirs theirs(options);
  randomize(ours);
  randomize(theirs);
  for (int step = 0; step < 3; ++step) {
    if (step == 2) ours->eval(), theirs->eval();
    at::Tensor left = input.detach().clone().requires_grad_(true);
    at::Tensor right = input.detach().clone().requires_grad_(true);
    const at::Tensor a = ours->forward(left);
    const at::Tensor b = theirs->forward(right);
    EXPECT_TRUE(same_bits(a, b)) << "step " << step;
    a.pow(3).sum().backward();
    b.pow(3).sum().backward();
    EXPECT_TRUE(same_bits(left.grad(), right.grad())) << "step " << step;
  }
  const NamedTensors buffers = named_buffers_of(theirs);
  const NamedTensors parameters = named_parameters_of(theirs);
  ASSERT_EQ(named_buffers_of(ours).size(), buffers.size());
  ASSERT_EQ(named_parameters_of(ours).size(), parameters.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(named_buffers_of(ours)[i].first, buffers[i].first);
    EXPECT_TRUE(same_bits(named_buffers_of(ours)[i].second, buffers[i].second)) << buffers[i].first;
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(named_parameters_of(ours)[i].first, parameters[i].first);
    EXPECT_TRUE(same_bits(named_parameters_of(ours)[i].second.grad(), parameters[i].second.grad()));
  }
}

TEST(BatchNorm, UnsyncedHasTorchsNamesAndBits) {
  const at::Tensor input = images(1, 4);
  for (const auto& options : {BatchNormOptions(5), BatchNormOptions(5).momentum(c10::nullopt).eps(1e-3),
                              BatchNormOptions(5).affine(false), BatchNormOptions(5).track_running_stats(false)}) {
    expect_same<BatchNorm2d, torch::nn::BatchNorm2d>(options, input);
  }
  expect_same<BatchNorm2d, torch::nn::BatchNorm2d>(BatchNormOptions(5), input.to(at::MemoryFormat::ChannelsLast));
  expect_same<BatchNorm2d, torch::nn::BatchNorm2d>(BatchNormOptions(5),
                                                   input.to(at::kBFloat16).contiguous(at::MemoryFormat::ChannelsLast));
  expect_same<BatchNorm1d, torch::nn::BatchNorm1d>(BatchNormOptions(5), input.flatten(2));
  expect_same<BatchNorm1d, torch::nn::BatchNorm1d>(BatchNormOptions(5), input.select(2, 0).select(2, 0));
  expect_same<BatchNorm3d, torch::nn::BatchNorm3d>(BatchNormOptions(5), input.unsqueeze(2));
}

TEST(BatchNorm, RefusesInputOfAnotherDimensionAsTorchDoes) {
  BatchNorm2d norm(5);
  try {
    norm->forward(at::zeros({4, 5, 6}));
    ADD_FAILURE() << "accepted";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("expected 4D input (got 3D input)"));
  }
}

TEST(BatchNorm, SaysWhatItIs) {
  std::ostringstream stream;
  stream << *BatchNorm2d(5);
  EXPECT_EQ(stream.str(),
            "lockstep::nn::BatchNorm2d(5, eps=1e-05, momentum=0.1, affine=true, track_running_stats=true)");
}

/// Plays the other replicas: adds their contributions, in the order of the calls.
class Others final : public StatisticsSync {
 public:
  explicit Others(std::vector<at::Tensor> brought) : brought_(std::move(brought)) {}
  [[nodiscard]] int replicas() const override { return 2; }
  void all_reduce(const at::Tensor& values) override {
    seen.push_back(values.clone());
    if (calls_ < brought_.size()) values.add_(brought_[calls_]);
    ++calls_;
  }
  std::vector<at::Tensor> seen;

 private:
  std::vector<at::Tensor> brought_;
  std::size_t calls_ = 0;
};

/// Returns what a replica with `input` contributes to each call, in a forward pass and in the backward pass of a sum of
/// cubes (a sum of squares has no gradient here).
std::vector<at::Tensor> brought_by(const at::Tensor& input, const at::Tensor& other) {
  // Two rounds: the first finds the contributions of the forward pass, the second those of the backward pass.
  const auto round = [](const at::Tensor& own, std::vector<at::Tensor> others) {
    BatchNorm2d norm(own.size(1));
    randomize(norm);
    auto sync = std::make_shared<Others>(std::move(others));
    norm->set_statistics_sync(sync);
    norm->forward(own.detach().requires_grad_(true)).pow(3).sum().backward();
    return sync->seen;
  };
  const at::Tensor first = round(other, {round(images(9, 2), {})[0]})[0];
  return round(input, {first});
}

struct Outcome {
  at::Tensor output, input_grad, weight_grad, bias_grad, running_mean, running_var;
};

template <class Norm>
Outcome outcome(Norm& norm, const at::Tensor& input) {
  at::Tensor leaf = input.detach().requires_grad_(true);
  const at::Tensor output = norm->forward(leaf);
  output.to(at::kFloat).pow(3).sum().backward();
  return {output.detach(), leaf.grad(), norm->weight.grad(), norm->bias.grad(), norm->running_mean, norm->running_var};
}

/// Compares the layer on `own`, synced with a replica that has `others`, with torch's layer on both batches.
void expect_like_both(const at::Tensor& own, const at::Tensor& others, double tolerance) {
  BatchNorm2d synced(own.size(1));
  randomize(synced);
  synced->set_statistics_sync(std::make_shared<Others>(brought_by(others, own)));
  const Outcome ours = outcome(synced, own);
  torch::nn::BatchNorm2d plain(own.size(1));
  randomize(plain);
  const Outcome both = outcome(plain, at::cat({own, others}).to(at::kFloat));
  const auto close = [&](const at::Tensor& a, const at::Tensor& b) {
    const double error = (a.to(at::kFloat) - b).norm().item<double>();
    return a.sizes() == b.sizes() && error <= tolerance * (b.norm().item<double>() + 1e-6);
  };
  EXPECT_TRUE(close(ours.output, both.output.narrow(0, 0, own.size(0))));
  EXPECT_TRUE(close(ours.input_grad, both.input_grad.narrow(0, 0, own.size(0))));
  EXPECT_TRUE(close(ours.running_mean, both.running_mean));
  EXPECT_TRUE(close(ours.running_var, both.running_var));
  EXPECT_EQ(synced->num_batches_tracked.item<std::int64_t>(), 1);
  EXPECT_EQ(ours.output.scalar_type(), own.scalar_type());
  EXPECT_EQ(ours.output.strides(), own.strides());
}

TEST(SyncedBatchNorm, IsBatchNormOverTheBatchesPutTogether) {
  expect_like_both(images(1, 4), images(2, 4), 1e-5);
  expect_like_both(images(1, 3), images(2, 8) * 2 - 5, 1e-5);
  expect_like_both(images(1, 1), images(2, 2) + 1000, 1e-3);  // float32 rounding around a mean of 1000
  expect_like_both(images(1, 4).contiguous(at::MemoryFormat::ChannelsLast), images(2, 5), 1e-5);
}

TEST(SyncedBatchNorm, SixteenBitActivationsHaveFloat32Statistics) {
  const at::Tensor own = images(1, 4).to(at::kBFloat16).contiguous(at::MemoryFormat::ChannelsLast);
  expect_like_both(own, images(2, 4).to(at::kBFloat16), 1e-2);
}

TEST(SyncedBatchNorm, AReplicaWithoutASampleTakesPart) {
  expect_like_both(images(1, 4), images(2, 0), 1e-5);
  expect_like_both(images(1, 0), images(2, 4), 1e-5);
}

TEST(SyncedBatchNorm, AnOverflowLeavesTheRunningStatisticsOfItsChannelAsTheyWere) {
  BatchNorm2d norm(5);
  norm->set_statistics_sync(std::make_shared<Others>(std::vector<at::Tensor>{}));
  at::Tensor input = images(1, 4);
  input[0][2][0][0] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(norm->forward(input).isfinite().all().item<bool>());
  EXPECT_EQ(norm->running_mean[2].item<float>(), 0);
  EXPECT_EQ(norm->running_var[2].item<float>(), 1);
  EXPECT_NE(norm->running_mean[1].item<float>(), 0);
}

TEST(SyncedBatchNorm, WeightAndBiasGradientsAreOfTheReplicasOwnBatch) {
  const at::Tensor own = images(1, 4);
  const at::Tensor others = images(2, 4);
  const auto part = [&](const at::Tensor& batch, const at::Tensor& beside) {
    BatchNorm2d norm(5);
    randomize(norm);
    norm->set_statistics_sync(std::make_shared<Others>(brought_by(beside, batch)));
    return outcome(norm, batch);
  };
  const Outcome left = part(own, others);
  const Outcome right = part(others, own);
  torch::nn::BatchNorm2d plain(5);
  randomize(plain);
  const Outcome both = outcome(plain, at::cat({own, others}));
  EXPECT_TRUE(at::allclose(left.weight_grad + right.weight_grad, both.weight_grad, 1e-5, 1e-4));
  EXPECT_TRUE(at::allclose(left.bias_grad + right.bias_grad, both.bias_grad, 1e-5, 1e-4));
}

TEST(SyncedBatchNorm, EvaluationCommunicatesNothing) {
  BatchNorm2d norm(5);
  auto sync = std::make_shared<Others>(std::vector<at::Tensor>{});
  norm->set_statistics_sync(sync);
  norm->eval();
  norm->forward(images(1, 4).requires_grad_(true)).sum().backward();
  EXPECT_TRUE(sync->seen.empty());
}

TEST(SyncedBatchNorm, AnInputThatNeedsNoGradientSavesTheCollectiveOfBackward) {
  BatchNorm2d norm(5);
  auto sync = std::make_shared<Others>(std::vector<at::Tensor>{});
  norm->set_statistics_sync(sync);
  norm->forward(images(1, 4)).sum().backward();
  EXPECT_EQ(sync->seen.size(), 1U);
  EXPECT_TRUE(norm->weight.grad().defined());
}

TEST(SyncedBatchNorm, OneValuePerChannelInAllReplicasIsAnError) {
  BatchNorm1d norm(5);
  norm->set_statistics_sync(std::make_shared<Others>(std::vector<at::Tensor>{}));
  try {
    norm->forward(at::zeros({1, 5}));
    ADD_FAILURE() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.message(), "synced batch norm got only 1 value per channel from all 2 replicas");
  }
}

TEST(SyncedBatchNorm, ASecondDerivativeIsAnError) {
  BatchNorm2d norm(5);
  norm->set_statistics_sync(std::make_shared<Others>(std::vector<at::Tensor>{}));
  const at::Tensor loss = norm->forward(images(1, 4).requires_grad_(true)).sum();
  EXPECT_THROW(loss.backward({}, c10::nullopt, /*create_graph=*/true), UsageError);
}

TEST(SyncedBatchNorm, WithoutWeightOrRunningStatisticsNormalisesTheSame) {
  const at::Tensor own = images(1, 4);
  BatchNorm2d synced(BatchNormOptions(5).affine(false).track_running_stats(false));
  auto sync = std::make_shared<Others>(std::vector<at::Tensor>{});  // nothing is added: the sums are its own
  synced->set_statistics_sync(sync);
  torch::nn::BatchNorm2d plain(BatchNormOptions(5).affine(false).track_running_stats(false));
  at::Tensor left = own.detach().requires_grad_(true);
  at::Tensor right = own.detach().clone().requires_grad_(true);
  const at::Tensor a = synced->forward(left);
  const at::Tensor b = plain->forward(right);
  a.pow(3).sum().backward();
  b.pow(3).sum().backward();
  EXPECT_TRUE(at::allclose(a, b, 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(left.grad(), right.grad(), 1e-4, 1e-5));
}

}  // namespace batch_norm_test

namespace norm_act_test {

struct Case {
  std::int64_t images, channels, height, width;
  bool pool;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.images << "x" << c.channels << "x" << c.height << "x" << c.width << (c.pool ? ", pooled" : "");
}

at::Tensor channels_last(const at::Tensor& tensor) {
  return tensor.to(tensor.options(), false, true, at::MemoryFormat::ChannelsLast);
}

/// The input, and the incoming gradient; rounded to bfloat16, so that both types can hold them.
struct Data {
  at::Tensor x;
  at::Tensor grad;
};

Data data_of(const Case& c, double mean = 0.3) {
  seed_all(11);
  const std::int64_t height = c.pool ? c.height / 2 : c.height;
  const std::int64_t width = c.pool ? c.width / 2 : c.width;
  const auto rounded = [](const at::Tensor& t) { return t.to(at::kBFloat16).to(at::kFloat); };
  return {channels_last(rounded(at::randn({c.images, c.channels, c.height, c.width}) * 2 + mean)),
          channels_last(rounded(at::randn({c.images, c.channels, height, width})))};
}

/// The results of one step of the layer.
struct Outcome {
  at::Tensor out, x_grad, weight_grad, bias_grad, running_mean, running_var;
};

BatchNormReLU2d layer_of(std::int64_t channels, BatchNormReLUOptions then) {
  seed_all(5);
  BatchNormReLU2d layer{torch::nn::BatchNormOptions(channels), then};
  const at::NoGradGuard no_grad;
  layer->weight.copy_(at::randn({channels}));
  layer->bias.copy_(at::randn({channels}) * 0.5);
  return layer;
}

Outcome fused(const Case& c, const Data& data, double dropout, at::ScalarType type = at::kFloat) {
  BatchNormReLU2d layer = layer_of(c.channels, {.dropout = dropout, .pool = c.pool});
  const at::Tensor x = data.x.clone().to(type).requires_grad_();
  seed_all(77);
  const at::Tensor out = layer->forward(x);
  EXPECT_THAT(out.grad_fn()->name(), testing::HasSubstr("FusedNormAct"));
  out.backward(data.grad.to(type));
  return {out, x.grad(), layer->weight.grad(), layer->bias.grad(), layer->running_mean, layer->running_var};
}

/// Dropout's scale at the elements that it keeps, else 0; the layer takes the first random number after the seed.
at::Tensor mask_of(const at::Tensor& x, double dropout) {
  if (dropout == 0) return at::ones_like(x);
  at::Generator generator = make_generator(77);
  const auto seed = at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
  std::vector<std::uint8_t> bits(static_cast<std::size_t>(dropout_bytes(x.numel())));
  fill_dropout_bits(bits.data(), 0, (x.numel() + 127) / 128, seed, 1 - dropout);
  const at::Tensor mask = at::empty_like(x);
  auto* to = mask.data_ptr<double>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const bool kept = (bits[static_cast<std::size_t>(i / 8)] >> (i % 8) & 1) != 0;
    to[i] = kept ? 1 / (1 - dropout) : 0;
  }
  return mask;
}

/// The separate layers of libtorch in float64.
Outcome reference(const Case& c, const Data& data, double dropout) {
  const BatchNormReLU2d layer = layer_of(c.channels, {});
  const at::Tensor x = data.x.to(at::kDouble).requires_grad_();
  const at::Tensor weight = layer->weight.detach().to(at::kDouble).requires_grad_();
  const at::Tensor bias = layer->bias.detach().to(at::kDouble).requires_grad_();
  const at::Tensor mean = at::zeros({c.channels}, at::kDouble);
  const at::Tensor var = at::ones_like(mean);
  at::Tensor out = at::batch_norm(x, weight, bias, mean, var, true, 0.1, 1e-5, false);
  out = at::relu(out * mask_of(data.x.to(at::kDouble), dropout));
  if (c.pool) out = at::max_pool2d(out, {2, 2});
  out.backward(data.grad.to(at::kDouble));
  return {out, x.grad(), weight.grad(), bias.grad(), mean, var};
}

/// Compares only values, in float64, whatever the memory order.
testing::AssertionResult close(const at::Tensor& found, const at::Tensor& expected, double tolerance) {
  const at::Tensor difference = (found.detach().to(at::kDouble) - expected.detach()).abs();
  const double scale = expected.detach().abs().max().item<double>() + 1e-3;
  const double worst = difference.max().item<double>() / scale;
  if (worst <= tolerance) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "differs by " << worst << " of its largest value";
}

class NormAct : public testing::TestWithParam<Case> {};

TEST_P(NormAct, InFloatEqualsLibtorchsSeparateLayersInDouble) {
  const Data data = data_of(GetParam());
  const Outcome found = fused(GetParam(), data, 0);
  const Outcome expected = reference(GetParam(), data, 0);
  EXPECT_TRUE(close(found.out, expected.out, 2e-6));
  EXPECT_TRUE(close(found.x_grad, expected.x_grad, 1e-5));
  EXPECT_TRUE(close(found.weight_grad, expected.weight_grad, 1e-5));
  EXPECT_TRUE(close(found.bias_grad, expected.bias_grad, 1e-5));
  EXPECT_TRUE(close(found.running_mean, expected.running_mean, 1e-6));
  EXPECT_TRUE(close(found.running_var, expected.running_var, 1e-6));
  EXPECT_TRUE(found.out.is_contiguous(at::MemoryFormat::ChannelsLast));
}

TEST_P(NormAct, WithDropoutEqualsTheLayersUnderTheSameMask) {
  for (const double dropout : {0.5, 0.2}) {
    const Data data = data_of(GetParam());
    const Outcome found = fused(GetParam(), data, dropout);
    const Outcome expected = reference(GetParam(), data, dropout);
    EXPECT_TRUE(close(found.out, expected.out, 2e-6)) << dropout;
    EXPECT_TRUE(close(found.x_grad, expected.x_grad, 1e-5)) << dropout;
    EXPECT_TRUE(close(found.weight_grad, expected.weight_grad, 1e-5)) << dropout;
    EXPECT_TRUE(close(found.bias_grad, expected.bias_grad, 1e-5)) << dropout;
  }
}

TEST_P(NormAct, WithAResidualEqualsTheLayersWithASumBetween) {
  const Case c = GetParam();
  if (c.pool) return;
  const Data data = data_of(c);
  const at::Tensor added = channels_last(at::randn_like(data.x).to(at::kBFloat16).to(at::kFloat));
  BatchNormReLU2d exact_layer = layer_of(c.channels, {});
  exact_layer->to(at::kDouble);
  const at::Tensor exact_x = data.x.to(at::kDouble).requires_grad_();
  const at::Tensor exact_added = added.to(at::kDouble).requires_grad_();
  const at::Tensor exact = exact_layer->forward_with_residual(exact_x, exact_added);
  EXPECT_THAT(exact.grad_fn()->name(), testing::HasSubstr("Relu")) << "float64 is libtorch's";
  exact.backward(data.grad.to(at::kDouble));
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const double tolerance = type == at::kFloat ? 1e-5 : 1.0 / 64;
    BatchNormReLU2d layer = layer_of(c.channels, {});
    const at::Tensor x = data.x.clone().to(type).requires_grad_();
    const at::Tensor residual = added.clone().to(type).requires_grad_();
    const at::Tensor out = layer->forward_with_residual(x, residual);
    EXPECT_THAT(out.grad_fn()->name(), testing::HasSubstr("FusedNormAct"));
    out.backward(data.grad.to(type));
    EXPECT_TRUE(close(out, exact, tolerance)) << type;
    EXPECT_TRUE(close(x.grad(), exact_x.grad(), tolerance)) << type;
    EXPECT_TRUE(close(residual.grad(), exact_added.grad(), tolerance)) << type;
    EXPECT_TRUE(close(layer->weight.grad(), exact_layer->weight.grad(), tolerance)) << type;
    EXPECT_TRUE(close(layer->bias.grad(), exact_layer->bias.grad(), tolerance)) << type;
  }
}

TEST(NormActResidual, IsRefusedWherePoolingOrDropoutFollows) {
  const at::Tensor x = channels_last(at::zeros({2, 8, 4, 4}));
  EXPECT_THROW((void)layer_of(8, {.pool = true})->forward_with_residual(x, x), UsageError);
  EXPECT_THROW((void)layer_of(8, {.dropout = 0.5})->forward_with_residual(x, x), UsageError);
}

TEST_P(NormAct, InBfloat16EqualsItToTheRounding) {
  const Data data = data_of(GetParam());
  const Outcome found = fused(GetParam(), data, 0, at::kBFloat16);
  const Outcome expected = reference(GetParam(), data, 0);
  EXPECT_EQ(found.out.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(close(found.out, expected.out, 4e-3));
  EXPECT_TRUE(close(found.x_grad, expected.x_grad, 4e-3));
  EXPECT_TRUE(close(found.weight_grad, expected.weight_grad, 1e-5));
}

TEST_P(NormAct, HasTheSameBitsOnAnyNumberOfThreads) {
  const Data data = data_of(GetParam());
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const Outcome one = fused(GetParam(), data, 0.5);
  at::set_num_threads(2);
  const Outcome two = fused(GetParam(), data, 0.5);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(one.out, two.out));
  EXPECT_TRUE(at::equal(one.x_grad, two.x_grad));
  EXPECT_TRUE(at::equal(one.weight_grad, two.weight_grad));
}

INSTANTIATE_TEST_SUITE_P(Shapes, NormAct,
                         testing::Values(Case{3, 16, 6, 8, false}, Case{3, 16, 6, 8, true}, Case{2, 8, 7, 5, true},
                                         Case{2, 40, 5, 9, false}, Case{2, 24, 3, 3, true}, Case{1, 128, 37, 4, false},
                                         Case{4, 64, 2, 2, true}));

TEST(NormActLayer, AMeanFarFromZeroCostsTheVarianceNoDigits) {
  const Case c{2, 8, 16, 16, false};
  const Data data = data_of(c, 4000);
  EXPECT_TRUE(close(fused(c, data, 0).running_var, reference(c, data, 0).running_var, 1e-5));
}

TEST(NormActLayer, AnOutlierAnywhereCostsTheVarianceNoDigits) {
  const Case c{8, 8, 64, 64, false};
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const double sigmas : {5.0, 10.0, 100.0, 1000.0, 10000.0}) {
      for (const std::int64_t place : {0, 1, 63}) {  // the batch's first pixel, the next one, the last one of a row
        Data data = data_of(c);
        data.x.select(0, 0).select(1, 0).select(1, place).fill_(
            at::full({}, 2 * sigmas).to(at::kBFloat16).item<float>());
        const Outcome found = fused(c, data, 0, type);
        const Outcome expected = reference(c, data, 0);
        EXPECT_TRUE(close(found.running_var, expected.running_var, 2e-5)) << sigmas << " at " << place;
        EXPECT_TRUE(close(found.running_mean, expected.running_mean, 2e-5)) << sigmas << " at " << place;
        EXPECT_TRUE(close(found.out, expected.out, type == at::kFloat ? 2e-5 : 4e-3)) << sigmas << " at " << place;
      }
    }
  }
}

TEST(NormActLayer, AnOverflowLeavesTheRunningStatisticsOfItsChannelAsTheyWere) {
  const Case c{2, 8, 4, 4, false};
  Data data = data_of(c);
  data.x[1][3][1][1] = std::numeric_limits<float>::infinity();
  const Outcome found = fused(c, data, 0);
  EXPECT_TRUE(found.out.select(1, 3).isnan().any().item<bool>());
  EXPECT_EQ(found.running_mean[3].item<float>(), 0);
  EXPECT_EQ(found.running_var[3].item<float>(), 1);
  EXPECT_NE(found.running_mean[2].item<float>(), 0);
}

TEST(NormActLayer, WhatIsNoNumberIsNotHiddenByReLU) {
  const Case c{2, 8, 4, 4, true};
  Data data = data_of(c);
  data.x[0][3][1][1] = std::numeric_limits<float>::quiet_NaN();
  const Outcome found = fused(c, data, 0);
  EXPECT_TRUE(found.out.select(1, 3).isnan().any().item<bool>());
  EXPECT_FALSE(found.out.select(1, 2).isnan().any().item<bool>());
}

TEST(NormActLayer, InEvaluationIsLibtorchs) {
  BatchNormReLU2d layer = layer_of(8, {.dropout = 0.5, .pool = true});
  layer->eval();
  const Data data = data_of({2, 8, 4, 4, true});
  const at::Tensor expected =
      at::max_pool2d(at::relu(at::batch_norm(data.x, layer->weight, layer->bias, layer->running_mean,
                                             layer->running_var, false, 0.1, 1e-5, false)),
                     {2, 2});
  EXPECT_TRUE(at::equal(layer->forward(data.x), expected));
}

TEST(NormActLayer, TakesWhatTheKernelsDoNotThroughLibtorch) {
  BatchNormReLU2d odd = layer_of(7, {.pool = true});
  const at::Tensor out = odd->forward(data_of({2, 7, 4, 4, true}).x.requires_grad_());
  EXPECT_EQ(out.sizes(), (std::vector<std::int64_t>{2, 7, 2, 2}));
  BatchNormReLU2d other_layout = layer_of(8, {});
  EXPECT_TRUE(other_layout->forward(data_of({2, 8, 4, 4, false}).x.contiguous()).is_contiguous());
}

TEST(NormActLayer, InThePlaceOfABatchNormSharesItsParametersAndStatistics) {
  torch::nn::BatchNorm2d norm(8);
  const BatchNormReLU2d layer(std::make_shared<BatchNormReLU2dImpl>(*norm, BatchNormReLUOptions{}));
  (void)BatchNormReLU2d(layer)->forward(data_of({2, 8, 4, 4, false}).x);
  EXPECT_TRUE(layer->named_parameters()["weight"].is_same(norm->weight));
  EXPECT_TRUE(layer->named_parameters()["bias"].is_same(norm->bias));
  EXPECT_TRUE(at::equal(norm->running_mean, layer->named_buffers()["running_mean"]));
  EXPECT_EQ(norm->num_batches_tracked.item<int>(), 1);
  EXPECT_NE(norm->running_mean.abs().sum().item<float>(), 0);
}

TEST(NormActLayer, ASecondDerivativeIsRefused) {
  BatchNormReLU2d layer = layer_of(8, {});
  const at::Tensor x = data_of({2, 8, 4, 4, false}).x.requires_grad_();
  EXPECT_THROW(layer->forward(x).sum().backward({}, true, true), UsageError);
}

TEST(DropoutBits, AreThoseOfPhilox) {
  std::uint32_t words[4];
  philox_block(0, 0, words);  // the known-answer vector from the authors' Random123
  EXPECT_THAT(words, testing::ElementsAre(0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U));
}

TEST(DropoutBits, AreAFunctionOfTheElementsIndexWhateverPartIsFilled) {
  for (const double keep : {0.5, 0.8}) {
    std::vector<std::uint8_t> whole(static_cast<std::size_t>(dropout_bytes(128 * 40)));
    std::vector<std::uint8_t> parts = whole;
    fill_dropout_bits(whole.data(), 0, 40, 9, keep);
    for (const std::int64_t begin : {0, 7, 8, 23}) {
      const std::int64_t end = begin == 0 ? 7 : begin == 7 ? 8 : begin == 8 ? 23 : 40;
      fill_dropout_bits(parts.data(), begin, end, 9, keep);
    }
    EXPECT_EQ(whole, parts) << keep;
  }
}

TEST(DropoutBits, KeepTheShareThatIsAskedForAndDifferFromSeedToSeed) {
  constexpr std::int64_t kBlocks = 4096;
  constexpr double kBits = 128.0 * kBlocks;
  for (const double keep : {0.5, 0.1, 0.9}) {
    std::vector<std::uint8_t> first(static_cast<std::size_t>(dropout_bytes(128 * kBlocks)));
    std::vector<std::uint8_t> second = first;
    fill_dropout_bits(first.data(), 0, kBlocks, 1, keep);
    fill_dropout_bits(second.data(), 0, kBlocks, 2, keep);
    double set = 0;
    double both = 0;
    for (std::size_t i = 0; i < 16 * kBlocks; ++i) {
      set += __builtin_popcount(first[i]);
      both += __builtin_popcount(first[i] & second[i]);
    }
    const double spread = 5 * std::sqrt(keep * (1 - keep) / kBits);  // five standard deviations
    EXPECT_NEAR(set / kBits, keep, spread);
    EXPECT_NEAR(both / kBits, keep * keep, spread);
  }
}

}  // namespace norm_act_test
}  // namespace lockstep::nn
