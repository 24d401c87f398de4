// SPDX-License-Identifier: Apache-2.0
// The losses and the attention against their definitions.
#include <ATen/core/ivalue.h>  // before any other torch header

#include <ATen/core/grad_mode.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "captioning/model/losses.h"
#include "captioning/model/window_attention.h"
#include "lockstep/base/error.h"
#include "lockstep/tensor/random.h"

namespace lockstep::captioning {
namespace captioning_losses_test {

// The two losses against their definitions, one word at a time.

constexpr std::int64_t kRows = 2;
constexpr std::int64_t kColumns = 3;
constexpr std::int64_t kWords = 5;

at::Tensor logits() {
  seed_all(3);
  return at::randn({kRows, kColumns, kWords});
}

/// 0 ends the first caption after one word; later words do not count.
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

// Attention in windows of a grid against a cell-by-cell computation: which cells see each other, distances, padding,
// and the global token.

double difference(const at::Tensor& one, const at::Tensor& other) { return (one - other).abs().max().item<double>(); }

/// Scores of each pair of cells in one window, looked up one by one.
at::Tensor slow_bias(const at::Tensor& table, std::int64_t window, const std::vector<std::array<std::int64_t, 2>>& at) {
  const auto count = static_cast<std::int64_t>(at.size());
  at::Tensor bias = at::zeros({table.size(1), count + 1, count + 1});
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t j = 0; j < count; ++j) {
      const auto& from = at[static_cast<std::size_t>(i)];
      const auto& to = at[static_cast<std::size_t>(j)];
      const std::int64_t row = (from[0] - to[0] + window - 1) * (2 * window - 1) + from[1] - to[1] + window - 1;
      bias.index_put_({at::indexing::Slice(), i, j}, table[row]);
    }
  }
  return bias;
}

struct SlowAttention {
  std::map<std::string, at::Tensor> weights;
  std::int64_t heads = 2;

  /// The attention of one sequence [N, dim] with scores to add.
  [[nodiscard]] at::Tensor of(const at::Tensor& x, const at::Tensor& bias) const {
    const at::Tensor projected =
        at::matmul(x, weights.at("query_key_value.weight").t()) + weights.at("query_key_value.bias");
    const auto part = [&](std::int64_t i) {
      return projected.chunk(3, 1)[static_cast<std::size_t>(i)].view({x.size(0), heads, -1}).transpose(0, 1);
    };
    const double depth = static_cast<double>(x.size(1) / heads);
    const at::Tensor scores = at::matmul(part(0), part(1).transpose(1, 2)) / std::sqrt(depth) + bias;
    const at::Tensor mixed = at::matmul(at::softmax(scores, -1), part(2)).transpose(0, 1).reshape(x.sizes());
    return at::matmul(mixed, weights.at("out.weight").t()) + weights.at("out.bias");
  }
};

/// Cells that see each other: those in the same window after the shift, unless the shift brought them together from
/// opposite edges.
std::vector<std::vector<std::array<std::int64_t, 2>>> slow_windows(const Grid& grid, std::int64_t window,
                                                                   bool shifted) {
  std::map<std::array<std::int64_t, 4>, std::vector<std::array<std::int64_t, 2>>> windows;
  const auto place = [&](std::int64_t cell, std::int64_t cells) {
    if (window >= cells) return std::array<std::int64_t, 2>{0, 0};
    const std::int64_t padded = (cells + window - 1) / window * window;
    const std::int64_t moved = shifted ? (cell - window / 2 + padded) % padded : cell;
    return std::array<std::int64_t, 2>{moved / window, shifted && cell < window / 2 ? 1 : 0};
  };
  for (std::int64_t row = 0; row < grid.height; ++row) {
    for (std::int64_t column = 0; column < grid.width; ++column) {
      const auto down = place(row, grid.height);
      const auto right = place(column, grid.width);
      windows[{down[0], right[0], down[1], right[1]}].push_back({row, column});
    }
  }
  std::vector<std::vector<std::array<std::int64_t, 2>>> all;
  for (auto& [key, cells] : windows) all.push_back(cells);
  return all;
}

void expect_windows_of(const Grid& grid, std::int64_t window, bool shifted) {
  at::manual_seed(1);
  WindowAttention attention({.dim = 8, .heads = 2, .window = window, .shifted = shifted});
  SlowAttention slow;
  for (const auto& item : attention.named_parameters()) {
    const at::NoGradGuard guard;
    item.value().copy_(at::randn_like(item.value()) * 0.5);
    slow.weights[item.key()] = item.value().detach();
  }
  const std::int64_t count = grid.height * grid.width;
  const at::Tensor x = at::randn({2, count + 1, 8});
  const at::NoGradGuard guard;
  const at::Tensor result = attention.forward(x, grid, {});
  for (std::int64_t b = 0; b < 2; ++b) {
    const at::Tensor own = x[b];
    for (const auto& cells : slow_windows(grid, window, shifted)) {
      std::vector<std::int64_t> rows;
      for (const auto& cell : cells) rows.push_back(cell[0] * grid.width + cell[1]);
      rows.push_back(count);
      const at::Tensor index = at::tensor(rows, at::kLong);
      const at::Tensor seen =
          slow.of(own.index_select(0, index), slow_bias(slow.weights["distance_bias"], window, cells));
      const auto among = static_cast<std::int64_t>(cells.size());
      EXPECT_LT(difference(result[b].index_select(0, index.narrow(0, 0, among)), seen.narrow(0, 0, among)), 1e-5)
          << grid.height << " x " << grid.width << ", window " << window << ", first cell " << rows[0];
    }
  }
}

TEST(CaptioningWindowAttention, CellsSeeTheirWindowTheirDistancesAndTheGlobalToken) {
  expect_windows_of({.height = 6, .width = 6}, 3, false);
  expect_windows_of({.height = 6, .width = 6}, 3, true);
  expect_windows_of({.height = 4, .width = 8}, 4, true);
}

TEST(CaptioningWindowAttention, AGridThatWindowsDoNotDivideIsPaddedAndPaddingIsNotSeen) {
  expect_windows_of({.height = 7, .width = 5}, 3, false);
  expect_windows_of({.height = 7, .width = 5}, 3, true);
  expect_windows_of({.height = 8, .width = 8}, 6, true);
}

TEST(CaptioningWindowAttention, AWindowOverTheWholeGridIsOneAndIsNotShifted) {
  expect_windows_of({.height = 4, .width = 3}, 4, true);
  expect_windows_of({.height = 2, .width = 3}, 6, true);
}

/// The global token sees each window of the grid, here without a shift.
TEST(CaptioningWindowAttention, TheGlobalTokenIsTheMeanOfWhatItSeesInEachWindow) {
  at::manual_seed(2);
  WindowAttention attention({.dim = 8, .heads = 2, .window = 2});
  SlowAttention slow;
  for (const auto& item : attention.named_parameters()) slow.weights[item.key()] = item.value().detach();
  const at::NoGradGuard guard;
  const at::Tensor x = at::randn({1, 13, 8});  // 4 x 3: four windows, two of them half padding
  const at::Tensor result = attention.forward(x, {.height = 4, .width = 3}, {})[0][12];
  at::Tensor sum = at::zeros({8});
  for (const auto& cells : slow_windows({.height = 4, .width = 3}, 2, false)) {
    std::vector<std::int64_t> rows;
    for (const auto& cell : cells) rows.push_back(cell[0] * 3 + cell[1]);
    rows.push_back(12);
    const at::Tensor seen =
        slow.of(x[0].index_select(0, at::tensor(rows, at::kLong)), slow_bias(slow.weights["distance_bias"], 2, cells));
    sum += seen[static_cast<std::int64_t>(cells.size())];
  }
  EXPECT_LT(difference(result, sum / 4), 1e-5);
}

TEST(CaptioningWindowAttention, TakesGridsOfAnotherSizeFromOneBatchToTheNext) {
  WindowAttention attention({.dim = 8, .heads = 2, .window = 3, .shifted = true});
  const at::NoGradGuard guard;
  const at::Tensor x = at::randn({1, 21, 8});
  const at::Tensor before = attention.forward(x, {.height = 4, .width = 5}, {});
  EXPECT_EQ(attention.forward(at::randn({2, 37, 8}), {.height = 6, .width = 6}, {}).size(1), 37);
  EXPECT_GT(difference(attention.forward(x, {.height = 5, .width = 4}, {}), before), 1e-3);
  EXPECT_TRUE(attention.forward(x, {.height = 4, .width = 5}, {}).equal(before));
}

}  // namespace captioning_losses_test
}  // namespace lockstep::captioning
