// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/loss.h"

#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>
#include <torch/nn/functional/loss.h>

#include <limits>

#include "lockstep/base/error.h"
#include "nn/layer_testing.h"

namespace lockstep::nn {
namespace loss_test {

namespace F = torch::nn::functional;
using ::testing::HasSubstr;
using ::testing::Not;

/// A loss, and the gradient of the logits.
using Outcome = std::vector<at::Tensor>;

template <class Loss>
Outcome step(const at::Tensor& logits, const Loss& loss) {
  const at::Tensor x = logits.detach().requires_grad_();
  const at::Tensor out = loss(x);
  // Weights that differ from 1 and from each other.
  const at::Tensor weights = at::linspace(0.5, 2, out.numel()).to(out.scalar_type()).view(out.sizes());
  out.backward(weights);
  return {out, x.grad()};
}

bool is_kernel(const at::Tensor& loss) { return loss.grad_fn()->name().find("LossFunction") != std::string::npos; }

at::Tensor logits_of(at::IntArrayRef shape, std::uint64_t seed = 1) {
  seed_all(seed);
  return (at::randn(shape) * 4).to(at::kBFloat16).to(at::kFloat);
}

// ---- multi-label

struct MultiLabelCase {
  std::vector<std::int64_t> shape;
  bool weighted;
  torch::nn::MultiLabelSoftMarginLossOptions::reduction_t reduction;
};

class MultiLabelTest : public testing::TestWithParam<MultiLabelCase> {
 protected:
  [[nodiscard]] static torch::nn::MultiLabelSoftMarginLossOptions options(at::ScalarType type) {
    torch::nn::MultiLabelSoftMarginLossOptions chosen;
    chosen.reduction(GetParam().reduction);
    seed_all(4);
    if (GetParam().weighted) chosen.weight(at::rand({GetParam().shape.back()}).to(type));
    return chosen;
  }
  [[nodiscard]] static at::Tensor target() {
    seed_all(5);
    return at::rand(GetParam().shape);
  }
  [[nodiscard]] static Outcome found(at::ScalarType type) {
    MultiLabelSoftMarginLoss loss{options(at::kFloat)};
    return step(logits_of(GetParam().shape).to(type), [&](const at::Tensor& x) {
      const at::Tensor out = loss(x, target());
      EXPECT_TRUE(is_kernel(out));
      return out;
    });
  }
  [[nodiscard]] static Outcome expected() {
    return step(logits_of(GetParam().shape).to(at::kDouble), [&](const at::Tensor& x) {
      return F::multilabel_soft_margin_loss(x, target().to(at::kDouble), options(at::kDouble));
    });
  }
};

TEST_P(MultiLabelTest, LossAndGradientAreLibtorchsInDouble) {
  EXPECT_LT(difference(found(at::kFloat)[0], expected()[0]), 1e-6);
  EXPECT_LT(difference(found(at::kFloat)[1], expected()[1]), 1e-6);
  EXPECT_EQ(found(at::kFloat)[0].sizes(), expected()[0].sizes());
}

TEST_P(MultiLabelTest, OfBfloat16LogitsTheLossIsFloatAndTheGradientRoundedOnceOrTwice) {
  const Outcome outcome = found(at::kBFloat16);
  EXPECT_EQ(outcome[0].scalar_type(), at::kFloat);
  EXPECT_EQ(outcome[1].scalar_type(), at::kBFloat16);
  EXPECT_LT(difference(outcome[0], expected()[0]), 1e-6);
  EXPECT_LT(difference(outcome[1], expected()[1]), 1e-2);
}

TEST_P(MultiLabelTest, HasTheSameBitsOnAnyNumberOfThreads) {
  EXPECT_TRUE(same_on_any_threads([] { return found(at::kFloat); }));
}

INSTANTIATE_TEST_SUITE_P(Shapes, MultiLabelTest,
                         testing::Values(MultiLabelCase{{64, 144}, false, torch::kMean},
                                         MultiLabelCase{{700, 37}, true, torch::kMean},
                                         MultiLabelCase{{700, 37}, true, torch::kNone},
                                         MultiLabelCase{{20, 30, 5}, false, torch::kSum}));

TEST(MultiLabel, HoldsForLogitsWhoseExponentialsAreNoNumbers) {
  const at::Tensor x = at::full({16, 64}, 300.0F);
  const at::Tensor target = at::zeros({16, 64});
  MultiLabelSoftMarginLoss loss;
  EXPECT_FLOAT_EQ(loss(x, target).item<float>(), 300);
  EXPECT_FLOAT_EQ(loss(-x, target).item<float>(), 0);
  EXPECT_FLOAT_EQ(loss(-x, target + 1).item<float>(), 300);
}

TEST(MultiLabel, WhatIsNoNumberStaysNone) {
  at::Tensor x = logits_of({64, 144});
  x[3][100] = std::numeric_limits<float>::quiet_NaN();
  MultiLabelSoftMarginLoss loss;
  const Outcome outcome = step(x, [&](const at::Tensor& logits) { return loss(logits, at::zeros({64, 144})); });
  EXPECT_TRUE(outcome[0].isnan().item<bool>());
  EXPECT_EQ(outcome[1].isnan().sum().item<int>(), 1);
}

TEST(MultiLabel, TakesWhatTheKernelDoesNotThroughLibtorchBitForBit) {
  MultiLabelSoftMarginLoss loss;
  const at::Tensor x = logits_of({64, 144}).to(at::kDouble).requires_grad_();
  const at::Tensor target = at::rand({64, 144}, at::kDouble);
  const at::Tensor found = loss(x, target);
  EXPECT_TRUE(at::equal(found, F::multilabel_soft_margin_loss(x, target)));
  EXPECT_FALSE(is_kernel(found));
  const at::Tensor learned = at::rand({64, 144}).requires_grad_();
  loss(logits_of({64, 144}), learned).backward();
  EXPECT_TRUE(learned.grad().defined());
}

TEST(MultiLabel, WithoutGradientsIsTheSameNumber) {
  MultiLabelSoftMarginLoss loss;
  const at::Tensor target = at::rand({64, 144});
  const at::Tensor with = loss(logits_of({64, 144}).requires_grad_(), target);
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(with, loss(logits_of({64, 144}), target)));
}

// ---- cross entropy

struct CrossEntropyCase {
  std::vector<std::int64_t> shape;
  at::MemoryFormat layout;
  bool weighted;
  double smoothing;
  torch::nn::CrossEntropyLossOptions::reduction_t reduction;
};

class CrossEntropyTest : public testing::TestWithParam<CrossEntropyCase> {
 protected:
  [[nodiscard]] static torch::nn::CrossEntropyLossOptions options(at::ScalarType type) {
    torch::nn::CrossEntropyLossOptions chosen;
    chosen.reduction(GetParam().reduction).label_smoothing(GetParam().smoothing).ignore_index(3);
    seed_all(4);
    if (GetParam().weighted) chosen.weight((at::rand({GetParam().shape[1]}) + 0.1).to(type));
    return chosen;
  }
  [[nodiscard]] static at::Tensor target() {
    std::vector<std::int64_t> shape = GetParam().shape;
    shape.erase(shape.begin() + 1);
    seed_all(5);
    return at::randint(GetParam().shape[1], shape);
  }
  [[nodiscard]] static at::Tensor logits() { return logits_of(GetParam().shape).contiguous(GetParam().layout); }
  [[nodiscard]] static Outcome found(at::ScalarType type) {
    CrossEntropyLoss loss{options(at::kFloat)};
    return step(logits().to(type), [&](const at::Tensor& x) {
      const at::Tensor out = loss(x, target());
      EXPECT_TRUE(is_kernel(out));
      return out;
    });
  }
  [[nodiscard]] static Outcome expected() {
    return step(logits().to(at::kDouble),
                [](const at::Tensor& x) { return F::cross_entropy(x, target(), options(at::kDouble)); });
  }
};

TEST_P(CrossEntropyTest, LossAndGradientAreLibtorchsInDouble) {
  const Outcome outcome = found(at::kFloat);
  EXPECT_LT(difference(outcome[0], expected()[0]), 1e-6);
  EXPECT_LT(difference(outcome[1], expected()[1]), 1e-6);
  EXPECT_EQ(outcome[0].sizes(), expected()[0].sizes());
  EXPECT_TRUE(outcome[1].is_contiguous(GetParam().layout));
}

TEST_P(CrossEntropyTest, OfBfloat16LogitsTheLossIsFloatAndTheGradientRoundedOnceOrTwice) {
  const Outcome outcome = found(at::kBFloat16);
  EXPECT_EQ(outcome[0].scalar_type(), at::kFloat);
  EXPECT_EQ(outcome[1].scalar_type(), at::kBFloat16);
  EXPECT_LT(difference(outcome[0], expected()[0]), 1e-6);
  EXPECT_LT(difference(outcome[1], expected()[1]), 1e-2);
}

TEST_P(CrossEntropyTest, HasTheSameBitsOnAnyNumberOfThreads) {
  EXPECT_TRUE(same_on_any_threads([] { return found(at::kFloat); }));
}

constexpr auto kPlain = at::MemoryFormat::Contiguous;
constexpr auto kLast = at::MemoryFormat::ChannelsLast;
INSTANTIATE_TEST_SUITE_P(Shapes, CrossEntropyTest,
                         testing::Values(CrossEntropyCase{{300, 36}, kPlain, false, 0, torch::kMean},
                                         CrossEntropyCase{{90, 1000}, kPlain, true, 0, torch::kMean},
                                         CrossEntropyCase{{300, 36}, kPlain, true, 0.1, torch::kMean},
                                         CrossEntropyCase{{300, 36}, kPlain, true, 0.1, torch::kNone},
                                         CrossEntropyCase{{500, 5}, kPlain, false, 0.2, torch::kSum},
                                         CrossEntropyCase{{3, 21, 37, 29}, kPlain, false, 0, torch::kMean},
                                         CrossEntropyCase{{3, 21, 37, 29}, kPlain, true, 0.1, torch::kMean},
                                         CrossEntropyCase{{2, 6, 100, 91}, kPlain, true, 0, torch::kNone},
                                         CrossEntropyCase{{3, 21, 37, 29}, kLast, true, 0.1, torch::kMean},
                                         CrossEntropyCase{{2, 6, 40, 31}, kLast, false, 0, torch::kNone}));

TEST(CrossEntropy, AnIgnoredElementHasNeitherLossNorGradientWhateverItsLogits) {
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{64, 36}, {2, 36, 8, 8}}) {
    at::Tensor x = logits_of(shape);
    at::Tensor target = at::zeros(shape.size() == 2 ? at::IntArrayRef{64} : at::IntArrayRef{2, 8, 8}, at::kLong);
    target[1].fill_(-100);
    x[1].fill_(std::numeric_limits<float>::infinity());
    CrossEntropyLoss loss;
    const Outcome outcome = step(x, [&](const at::Tensor& logits) { return loss(logits, target); });
    EXPECT_TRUE(outcome[0].isfinite().item<bool>());
    EXPECT_EQ(outcome[1][1].abs().max().item<float>(), 0);
    EXPECT_GT(outcome[1][0].abs().max().item<float>(), 0);
  }
}

TEST(CrossEntropy, WhatIsNoNumberStaysNone) {
  at::Tensor x = logits_of({64, 36});
  x[3][30] = std::numeric_limits<float>::quiet_NaN();
  CrossEntropyLoss loss;
  const at::Tensor target = at::zeros({64}, at::kLong);
  const Outcome outcome = step(x, [&](const at::Tensor& logits) { return loss(logits, target); });
  EXPECT_TRUE(outcome[0].isnan().item<bool>());
  EXPECT_TRUE(outcome[1][3].isnan().all().item<bool>());
  EXPECT_EQ(outcome[1].isnan().sum().item<int>(), 36);
}

TEST(CrossEntropy, HoldsForLogitsWhoseExponentialsAreNoNumbers) {
  at::Tensor x = at::zeros({64, 36});
  x.select(1, 0).fill_(500);
  CrossEntropyLoss loss;
  EXPECT_FLOAT_EQ(loss(x, at::zeros({64}, at::kLong)).item<float>(), 0);
  EXPECT_FLOAT_EQ(loss(x, at::ones({64}, at::kLong)).item<float>(), 500);
}

TEST(CrossEntropy, AClassThatThereIsNoneOfIsNamed) {
  CrossEntropyLoss loss;
  at::Tensor target = at::zeros({64}, at::kLong);
  target[9] = 36;
  try {
    (void)loss(logits_of({64, 36}), target);
    FAIL() << "nothing was thrown";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("element 9 of the cross entropy targets has class 36"));
  }
}

TEST(CrossEntropy, OfNoElementsAtAllIsNoNumberAsInLibtorch) {
  CrossEntropyLoss loss;
  EXPECT_TRUE(loss(logits_of({64, 36}), at::full({64}, -100, at::kLong)).isnan().item<bool>());
}

TEST(CrossEntropy, OfIgnoredElementsAloneHasNoGradientAsInLibtorch) {
  const std::vector<std::pair<std::vector<std::int64_t>, at::MemoryFormat>> cases = {
      {{64, 36}, kPlain}, {{2, 6, 8, 8}, kPlain}, {{2, 6, 8, 8}, kLast}};
  for (const double smoothing : {0.0, 0.1}) {
    for (const auto& [shape, layout] : cases) {
      std::vector<std::int64_t> places = shape;
      places.erase(places.begin() + 1);
      const at::Tensor target = at::full(places, -100, at::kLong);
      CrossEntropyLoss loss{torch::nn::CrossEntropyLossOptions().label_smoothing(smoothing)};
      const Outcome outcome = step(logits_of(shape).contiguous(layout).to(at::kBFloat16),
                                   [&](const at::Tensor& logits) { return loss(logits, target); });
      EXPECT_TRUE(outcome[0].isnan().item<bool>());
      EXPECT_EQ(outcome[1].count_nonzero().item<std::int64_t>(), 0) << outcome[1].sizes() << " " << smoothing;
    }
  }
}

TEST(CrossEntropy, TakesWhatTheKernelDoesNotThroughLibtorchBitForBit) {
  CrossEntropyLoss loss;
  const at::Tensor x = logits_of({64, 36}).to(at::kDouble).requires_grad_();
  const at::Tensor target = at::randint(36, {64});
  const at::Tensor found = loss(x, target);
  EXPECT_TRUE(at::equal(found, F::cross_entropy(x, target)));
  EXPECT_FALSE(is_kernel(found));
  const at::Tensor shares = at::rand({64, 36}).softmax(1);
  EXPECT_TRUE(at::equal(loss(logits_of({64, 36}), shares), F::cross_entropy(logits_of({64, 36}), shares)));
}

TEST(CrossEntropy, OfFewNarrowLogitsIsAsGoodAsOfMany) {  // the last batch of an epoch
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    for (const bool weighted : {false, true}) {
      for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{1, 2}, {4, 10}, {2, 3, 2, 2}}) {
        std::vector<std::int64_t> places = shape;
        places.erase(places.begin() + 1);
        const at::Tensor target = at::randint(shape[1], places);
        torch::nn::CrossEntropyLossOptions options;
        if (weighted) options.weight(at::linspace(0.5, 2, shape[1]));
        CrossEntropyLoss layer{options};
        const at::Tensor logits = logits_of(shape).to(dtype);
        const Outcome found = step(logits, [&](const at::Tensor& x) { return layer(x, target); });
        if (weighted) options.weight(options.weight().to(at::kDouble));
        const Outcome expected =
            step(logits.to(at::kDouble), [&](const at::Tensor& x) { return F::cross_entropy(x, target, options); });
        EXPECT_EQ(found[0].scalar_type(), at::kFloat);
        EXPECT_EQ(found[1].scalar_type(), dtype);
        EXPECT_LT(difference(found[0], expected[0]), 1e-5) << dtype << " " << logits.sizes();
        EXPECT_LT(difference(found[1], expected[1]), 1e-2) << dtype << " " << logits.sizes();
      }
    }
  }
}

TEST(Losses, OfNarrowLogitsThatTheKernelDoesNotTakeAreFloat) {
  const at::Tensor logits = logits_of({8, 6}).to(at::kBFloat16);
  const at::Tensor shares = at::rand({8, 6}).softmax(1);
  CrossEntropyLoss entropy{torch::nn::CrossEntropyLossOptions().weight(at::linspace(0.5, 2, 6))};
  const at::Tensor of_shares =
      F::cross_entropy(logits.to(at::kFloat), shares, F::CrossEntropyFuncOptions().weight(entropy->weight));
  EXPECT_TRUE(at::equal(entropy(logits, shares), of_shares));
  MultiLabelSoftMarginLoss labels;
  const at::Tensor across = logits.t();  // not contiguous
  EXPECT_TRUE(at::equal(labels(across, shares.t()), F::multilabel_soft_margin_loss(across.to(at::kFloat), shares.t())));
}

TEST(Losses, ASecondDerivativeIsRefused) {
  const at::Tensor x = logits_of({64, 36}).requires_grad_();
  EXPECT_THROW(CrossEntropyLoss()(x, at::zeros({64}, at::kLong)).backward({}, true, true), UsageError);
  EXPECT_THROW(MultiLabelSoftMarginLoss()(x, at::zeros({64, 36})).backward({}, true, true), UsageError);
}

TEST(Losses, AGradientThatWasTakenTwiceIsTheSame) {
  const at::Tensor x = logits_of({64, 36}).requires_grad_();
  CrossEntropyLoss layer;
  const at::Tensor loss = layer(x, at::zeros({64}, at::kLong));
  loss.backward({}, true);
  const at::Tensor once = x.grad().clone();
  loss.backward();
  EXPECT_TRUE(at::equal(x.grad(), once * 2));
}

}  // namespace loss_test
}  // namespace lockstep::nn
