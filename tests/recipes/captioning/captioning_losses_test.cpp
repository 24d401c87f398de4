// SPDX-License-Identifier: Apache-2.0
// The two losses against their definitions, word by word.
#include "captioning/model/losses.h"

#include <ATen/ops/log_softmax.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/tensor/random.h"

namespace lockstep::captioning {
namespace captioning_losses_test {

constexpr std::int64_t kRows = 2;
constexpr std::int64_t kColumns = 3;
constexpr std::int64_t kWords = 5;

at::Tensor logits() {
  seed_all(3);
  return at::randn({kRows, kColumns, kWords});
}

/// 0 ends the first caption after one word; what comes after it counts nowhere.
at::Tensor targets() {
  return at::tensor(
             {std::int64_t{4}, std::int64_t{0}, std::int64_t{-1}, std::int64_t{2}, std::int64_t{2}, std::int64_t{0}})
      .view({kRows, kColumns});
}

double at3(const at::Tensor& values, std::int64_t i, std::int64_t j, std::int64_t k) {
  return values[i][j][k].item<double>();
}

TEST(WordLoss, IsTheMeanOverWordsThatCount) {
  const at::Tensor log_probs = at::log_softmax(logits(), -1);
  const double expected = -(at3(log_probs, 0, 0, 4) + at3(log_probs, 0, 1, 0) + at3(log_probs, 1, 0, 2) +
                            at3(log_probs, 1, 1, 2) + at3(log_probs, 1, 2, 0)) /
                          5;
  EXPECT_NEAR(word_loss(logits(), targets(), 0).item<double>(), expected, 1e-6);
}

TEST(WordLoss, SmoothedIsTheDivergenceFromATargetThatLeavesAPartToTheOthers) {
  const double smoothing = 0.2;
  const at::Tensor log_probs = at::log_softmax(logits(), -1);
  const at::Tensor words = targets();
  double sum = 0;
  for (std::int64_t i = 0; i < kRows; ++i) {
    for (std::int64_t j = 0; j < kColumns; ++j) {
      const auto target = words[i][j].item<std::int64_t>();
      for (std::int64_t k = 0; target >= 0 && k < kWords; ++k) {
        const double wanted = k == target ? 1 - smoothing : smoothing / (kWords - 1);
        sum += wanted * (std::log(wanted) - at3(log_probs, i, j, k));
      }
    }
  }
  EXPECT_NEAR(word_loss(logits(), targets(), smoothing).item<double>(), sum / 5, 1e-6);
}

TEST(WordLoss, SmoothedIsZeroAtItsBest) {
  const double rest = 0.1 / (kWords - 1);
  at::Tensor best = at::randn({1, 1, kWords}).fill_(std::log(rest));
  best[0][0][2] = std::log(0.9);
  EXPECT_NEAR(word_loss(best, at::tensor({std::int64_t{2}}).view({1, 1}), 0.1).item<double>(), 0, 1e-6);
}

TEST(WordLoss, WithoutATargetIsAnError) {
  EXPECT_THROW((void)word_loss(logits(), targets().clone().fill_(-1), 0), UsageError);
}

TEST(MeanOfOthers, LeavesEachSampleOut) {
  const at::Tensor rewards = at::tensor({1.0, 2.0, 6.0, 0.0, 0.0, 3.0}).view({2, 3});
  const at::Tensor expected = at::tensor({4.0, 3.5, 1.5, 1.5, 1.5, 0.0}).view({2, 3});
  EXPECT_TRUE(mean_of_others(rewards).equal(expected));
  EXPECT_THROW((void)mean_of_others(rewards.narrow(1, 0, 1)), UsageError);
}

SampledCaptions drawn() {
  const at::Tensor words = targets().clamp(0);
  return {.words = words,
          .chosen = targets().ge(0),
          .reward = at::tensor({1.5F, 0.5F}),
          .advantage = at::tensor({2.0F, -1.0F})};
}

TEST(SelfCriticalLoss, ShowsMinusTheMeanReward) {
  EXPECT_FLOAT_EQ(self_critical_loss(logits(), drawn()).item<float>(), -1.0F);
}

TEST(SelfCriticalLoss, HasTheGradientOfThePolicy) {
  const at::Tensor x = logits().requires_grad_();
  self_critical_loss(x, drawn()).backward();
  const at::Tensor chances = logits().softmax(-1);
  const SampledCaptions samples = drawn();
  for (std::int64_t i = 0; i < kRows; ++i) {
    for (std::int64_t j = 0; j < kColumns; ++j) {
      for (std::int64_t k = 0; k < kWords; ++k) {
        // d(-log softmax)/dx = p - [k is the word], times the advantage, over the 5 words that were chosen.
        const bool is_word = samples.words[i][j].item<std::int64_t>() == k;
        const double counts = samples.chosen[i][j].item<bool>() ? samples.advantage[i].item<double>() / 5 : 0;
        EXPECT_NEAR(at3(x.grad(), i, j, k), counts * (at3(chances, i, j, k) - (is_word ? 1 : 0)), 1e-6);
      }
    }
  }
}

}  // namespace captioning_losses_test
}  // namespace lockstep::captioning
