// SPDX-License-Identifier: Apache-2.0
// The comparison of a detector's boxes, as an exported file computes them, with the network's own.
#include "worker/onnx/onnx_parity.h"

#include <gtest/gtest.h>

namespace lockstep::worker {
namespace onnx_parity_test {

constexpr double kTolerance = 1e-4;

/// Four boxes of two images; `score` and `place` are the last box's.
std::vector<at::Tensor> boxes(float score = 0.02F, float place = 4) {
  const at::Tensor scores = at::tensor({0.9F, 0.5F, 0.1F, score, 0.9F, 0.5F, 0.1F, score}).view({2, 4});
  const at::Tensor places = at::tensor({1.0F, 2.0F, 3.0F, place, 1.0F, 2.0F, 3.0F, place}).view({2, 4, 1});
  return {places, scores};
}

double difference(const std::vector<at::Tensor>& wanted, const std::vector<at::Tensor>& found) {
  return difference_of_rows({.outputs = {"boxes", "scores"}, .is_set = true}, wanted, found);
}

TEST(OnnxParity, DoesNotDependOnTheOrderOfBoxes) {
  const std::vector<at::Tensor> turned = {boxes()[0].flip(1), boxes()[1].flip(1)};
  EXPECT_EQ(difference(boxes(), turned), 0);
}

TEST(OnnxParity, LeavesOutBoxesThatRoundingPutsAmongTheBest) {
  EXPECT_LT(difference(boxes(0.02F, 4), boxes(0.020001F, 1.5F)), kTolerance);
  EXPECT_GT(difference(boxes(0.1F, 4), boxes(0.101F, 1.5F)), kTolerance) << "more than rounding above the lowest score";
}

TEST(OnnxParity, FindsABoxElsewhere) {
  auto moved = boxes();
  moved[0] = moved[0].clone();
  moved[0][1][2] += 0.01;
  EXPECT_GT(difference(boxes(), moved), kTolerance);
  EXPECT_GT(difference(moved, boxes()), kTolerance);
}

TEST(OnnxParity, FindsALowScoreThatDiffers) { EXPECT_GT(difference(boxes(0.02F), boxes(0.03F)), kTolerance); }

TEST(OnnxParity, LeavesNothingOutWithoutScores) {
  const nn::NetworkFunction function = {.outputs = {"boxes", "logits"}, .is_set = true};
  EXPECT_GT(difference_of_rows(function, boxes(0.02F, 4), boxes(0.02F, 1.5F)), kTolerance);
}

}  // namespace onnx_parity_test
}  // namespace lockstep::worker
