// SPDX-License-Identifier: Apache-2.0
// Unsynced, lockstep::nn::BatchNorm is torch::nn::BatchNorm to the bit. Synced, with replicas that a fake stands for,
// it is batch norm over their batches put together; real replicas are in tests/parallel/sync_batch_norm_test.cpp.
#include "lockstep/nn/batch_norm.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <cstring>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/random.h"

namespace lockstep::nn {
namespace batch_norm_test {

using ::testing::HasSubstr;
using torch::nn::BatchNormOptions;

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

/// Gives `norm` parameters other than ones and zeros.
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

/// Stands for other replicas: adds what they would bring, in the order of the calls.
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

/// What a replica with `input` brings to each call of a forward and the backward of a sum of cubes (that of squares has
/// no gradient here).
std::vector<at::Tensor> brought_by(const at::Tensor& input, const at::Tensor& other) {
  // Twice: the first round finds what each brings in forward, the second what it brings in backward.
  const auto round = [](const at::Tensor& mine, std::vector<at::Tensor> others) {
    BatchNorm2d norm(mine.size(1));
    randomize(norm);
    auto sync = std::make_shared<Others>(std::move(others));
    norm->set_statistics_sync(sync);
    norm->forward(mine.detach().requires_grad_(true)).pow(3).sum().backward();
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

/// `mine` with a replica that has `others`, against torch over both.
void expect_like_both(const at::Tensor& mine, const at::Tensor& others, double tolerance) {
  BatchNorm2d synced(mine.size(1));
  randomize(synced);
  synced->set_statistics_sync(std::make_shared<Others>(brought_by(others, mine)));
  const Outcome ours = outcome(synced, mine);
  torch::nn::BatchNorm2d plain(mine.size(1));
  randomize(plain);
  const Outcome both = outcome(plain, at::cat({mine, others}).to(at::kFloat));
  const auto close = [&](const at::Tensor& a, const at::Tensor& b) {
    const double error = (a.to(at::kFloat) - b).norm().item<double>();
    return a.sizes() == b.sizes() && error <= tolerance * (b.norm().item<double>() + 1e-6);
  };
  EXPECT_TRUE(close(ours.output, both.output.narrow(0, 0, mine.size(0))));
  EXPECT_TRUE(close(ours.input_grad, both.input_grad.narrow(0, 0, mine.size(0))));
  EXPECT_TRUE(close(ours.running_mean, both.running_mean));
  EXPECT_TRUE(close(ours.running_var, both.running_var));
  EXPECT_EQ(synced->num_batches_tracked.item<std::int64_t>(), 1);
  EXPECT_EQ(ours.output.scalar_type(), mine.scalar_type());
  EXPECT_EQ(ours.output.strides(), mine.strides());
}

TEST(SyncedBatchNorm, IsBatchNormOverTheBatchesPutTogether) {
  expect_like_both(images(1, 4), images(2, 4), 1e-5);
  expect_like_both(images(1, 3), images(2, 8) * 2 - 5, 1e-5);
  expect_like_both(images(1, 1), images(2, 2) + 1000, 1e-3);  // float32 rounds a mean of 1000
  expect_like_both(images(1, 4).contiguous(at::MemoryFormat::ChannelsLast), images(2, 5), 1e-5);
}

TEST(SyncedBatchNorm, SixteenBitActivationsHaveFloat32Statistics) {
  const at::Tensor mine = images(1, 4).to(at::kBFloat16).contiguous(at::MemoryFormat::ChannelsLast);
  expect_like_both(mine, images(2, 4).to(at::kBFloat16), 1e-2);
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
  const at::Tensor mine = images(1, 4);
  const at::Tensor others = images(2, 4);
  const auto part = [&](const at::Tensor& of, const at::Tensor& beside) {
    BatchNorm2d norm(5);
    randomize(norm);
    norm->set_statistics_sync(std::make_shared<Others>(brought_by(beside, of)));
    return outcome(norm, of);
  };
  const Outcome left = part(mine, others);
  const Outcome right = part(others, mine);
  torch::nn::BatchNorm2d plain(5);
  randomize(plain);
  const Outcome both = outcome(plain, at::cat({mine, others}));
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
    EXPECT_EQ(error.message(), "synced batch norm got 1 values per channel from all 2 replicas together");
  }
}

TEST(SyncedBatchNorm, ASecondDerivativeIsAnError) {
  BatchNorm2d norm(5);
  norm->set_statistics_sync(std::make_shared<Others>(std::vector<at::Tensor>{}));
  const at::Tensor loss = norm->forward(images(1, 4).requires_grad_(true)).sum();
  EXPECT_THROW(loss.backward({}, c10::nullopt, /*create_graph=*/true), UsageError);
}

TEST(SyncedBatchNorm, WithoutWeightOrRunningStatisticsNormalisesTheSame) {
  const at::Tensor mine = images(1, 4);
  BatchNorm2d synced(BatchNormOptions(5).affine(false).track_running_stats(false));
  auto sync = std::make_shared<Others>(std::vector<at::Tensor>{});  // alone: both replicas' sums are its own
  synced->set_statistics_sync(sync);
  torch::nn::BatchNorm2d plain(BatchNormOptions(5).affine(false).track_running_stats(false));
  at::Tensor left = mine.detach().requires_grad_(true);
  at::Tensor right = mine.detach().clone().requires_grad_(true);
  const at::Tensor a = synced->forward(left);
  const at::Tensor b = plain->forward(right);
  a.pow(3).sum().backward();
  b.pow(3).sum().backward();
  EXPECT_TRUE(at::allclose(a, b, 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(left.grad(), right.grad(), 1e-4, 1e-5));
}

}  // namespace batch_norm_test
}  // namespace lockstep::nn
