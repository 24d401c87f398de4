// SPDX-License-Identifier: Apache-2.0
// A profile's computations: operator costs, and the offset between clocks.
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/observe/clock_offset.h"
#include "observe/operator_cost.h"

namespace lockstep::observe {
namespace costs_test {

using Values = std::vector<c10::IValue>;

c10::IValue tensor(std::vector<std::int64_t> shape) { return at::ones(shape); }
c10::IValue numbers(std::vector<std::int64_t> values) { return c10::IValue(values); }

OperatorCost cost(const char* name, const Values& inputs) {
  return operator_cost(name, c10::ArrayRef<const c10::IValue>(inputs.data(), inputs.size()));
}
double flops(const char* name, const Values& inputs) { return cost(name, inputs).flops; }
std::int64_t bytes(const char* name, const Values& inputs) { return cost(name, inputs).bytes; }

/// convolution_backward's arguments, with the requested gradients of input and weight.
Values backward_of(const c10::IValue& input, const c10::IValue& weight, bool input_wanted, bool weight_wanted) {
  return {tensor({1}),
          input,
          weight,
          c10::IValue(),
          numbers({2, 2}),
          numbers({1, 1}),
          numbers({1, 1}),
          false,
          numbers({0, 0}),
          1,
          c10::IValue(c10::List<bool>({input_wanted, weight_wanted, true}))};
}

TEST(OperatorCost, OfProductsIsTwoForEachMultiplication) {
  EXPECT_EQ(flops("aten::mm", {tensor({3, 5}), tensor({5, 7})}), 2 * 3 * 5 * 7);
  EXPECT_EQ(flops("aten::bmm", {tensor({4, 3, 5}), tensor({4, 5, 7})}), 2 * 4 * 3 * 5 * 7);
  EXPECT_EQ(flops("aten::addmm", {tensor({7}), tensor({3, 5}), tensor({5, 7})}), 2 * 3 * 5 * 7);
  EXPECT_EQ(flops("aten::mv", {tensor({3, 5}), tensor({5})}), 2 * 3 * 5);
}

TEST(OperatorCost, OfAConvolutionKnowsStridePaddingDilationAndGroups) {
  const Values plain = {tensor({2, 4, 9, 9}), tensor({8, 4, 3, 3}), c10::IValue(), numbers({2, 2}),
                        numbers({1, 1}),      numbers({1, 1}),      false};
  EXPECT_EQ(flops("aten::convolution", plain), 2.0 * 2 * 8 * 5 * 5 * 4 * 9);
  const Values dilated = {tensor({2, 4, 9, 9}), tensor({8, 2, 3, 3}), c10::IValue(), numbers({1}),
                          numbers({0}),         numbers({2}),         false};
  EXPECT_EQ(flops("aten::convolution", dilated), 2.0 * 2 * 8 * 5 * 5 * 2 * 9);
}

TEST(OperatorCost, OfATransposedConvolutionHasAProductForEachInput) {
  const Values inputs = {tensor({2, 4, 5, 5}), tensor({4, 8, 3, 3}), c10::IValue(), numbers({2, 2}),
                         numbers({0, 0}),      numbers({1, 1}),      true};
  EXPECT_EQ(flops("aten::convolution", inputs), 2.0 * 2 * 4 * 5 * 5 * 8 * 9);
}

TEST(OperatorCost, OfABackwardCountsTheGradientsThatAreWanted) {
  const c10::IValue input = tensor({2, 4, 9, 9});
  const c10::IValue weight = tensor({8, 4, 3, 3});
  const double forward = 2.0 * 2 * 8 * 5 * 5 * 4 * 9;
  EXPECT_EQ(flops("aten::convolution_backward", backward_of(input, weight, true, true)), 2 * forward);
  EXPECT_EQ(flops("aten::convolution_backward", backward_of(input, weight, false, true)), forward);
  EXPECT_EQ(flops("lockstep::winograd_convolution_backward", {input, weight, 1}), 2.0 * 2 * 9 * 9 * 8 * 4 * 9);
}

TEST(OperatorCost, OfLockstepsConvolutionsIsThatOfTheDirectSum) {
  EXPECT_EQ(flops("lockstep::winograd_convolution", {tensor({2, 4, 9, 9}), tensor({8, 4, 3, 3})}),
            2.0 * 2 * 9 * 9 * 8 * 4 * 9);
}

TEST(OperatorCost, OfLockstepsProductsIsThatOfTheShapes) {
  const c10::IValue input = tensor({2, 4, 9, 9});
  const c10::IValue weight = tensor({8, 4, 3, 3});
  const std::vector<std::int64_t> strided = {2, 2, 1, 1, 1, 1};
  constexpr double kProducts = 2.0 * 5 * 5 * 8 * 4 * 9;
  EXPECT_EQ(flops("lockstep::direct_convolution", {input, weight, strided}), 2 * kProducts);
  EXPECT_EQ(flops("lockstep::direct_convolution_backward", {input, weight, strided, 2}), 4 * kProducts);
  EXPECT_EQ(flops("lockstep::depthwise_convolution", {input, tensor({4, 1, 3, 3}), strided}), 2.0 * 2 * 5 * 5 * 4 * 9);
  EXPECT_EQ(flops("lockstep::linear", {tensor({3, 5, 6}), tensor({7, 6})}), 2.0 * 3 * 5 * 6 * 7);
  EXPECT_EQ(flops("lockstep::linear_backward", {tensor({3, 5, 6}), tensor({7, 6}), 1}), 2.0 * 3 * 5 * 6 * 7);
  EXPECT_EQ(flops("lockstep::attention", {tensor({2, 3, 5, 8}), tensor({2, 3, 7, 8})}), 2.0 * 2 * 2 * 3 * 5 * 7 * 8);
}

TEST(OperatorCost, IsNothingWhereInputsAreNotWhatTheNameSays) {
  EXPECT_EQ(flops("aten::mm", {}), 0);
  EXPECT_EQ(flops("aten::convolution", {tensor({2, 4}), c10::IValue()}), 0);
  EXPECT_EQ(flops("aten::add", {tensor({3}), tensor({3})}), 0);
}

TEST(OperatorCost, HasTheBytesThatAnOperatorReads) {
  EXPECT_EQ(bytes("aten::add", {tensor({100}), tensor({100})}), 800);
  EXPECT_EQ(bytes("aten::copy_", {tensor({100}), tensor({100})}), 400);
  EXPECT_EQ(bytes("aten::mm", {tensor({3, 5}), tensor({5, 7})}), 0);
  EXPECT_EQ(bytes("aten::cat", {c10::IValue(std::vector<at::Tensor>{at::ones({10}), at::ones({20})}), 0}), 120);
}

TEST(OperatorName, IsShortForNodesOfTheBackward) {
  using view::CallKind;
  EXPECT_EQ(short_name("torch::autograd::AccumulateGrad", CallKind::kBackwardNode), "AccumulateGrad");
  EXPECT_EQ(short_name("AddmmBackward0", CallKind::kBackwardNode), "AddmmBackward0");
  EXPECT_EQ(short_name("torch::autograd::CppNode<lockstep::nn::(anonymous namespace)::WinogradConvolution>",
                       CallKind::kBackwardNode),
            "lockstep::WinogradConvolution backward");
  EXPECT_EQ(short_name("torch::autograd::CppNode<Mine>", CallKind::kBackwardNode), "Mine backward");
  EXPECT_TRUE(is_engine("autograd::engine::evaluate_function: AddmmBackward0"));
  EXPECT_EQ(short_name("aten::mm", CallKind::kOperator), "aten::mm");
}

constexpr std::int64_t kOffset = 5'000'000'000;

/// A round: the ranks enter at these times of rank 0's clock, and both leave one trip after the later of them.
struct Meeting {
  std::int64_t main_enters;
  std::int64_t other_enters;
  std::int64_t trip;
};

ClockOffset offset_of(const std::vector<Meeting>& meetings) {
  std::vector<ClockRound> main;
  std::vector<ClockRound> other;
  for (const Meeting& meeting : meetings) {
    const std::int64_t leave = std::max(meeting.main_enters, meeting.other_enters) + meeting.trip;
    main.push_back({meeting.main_enters, leave});
    other.push_back({meeting.other_enters + kOffset, leave + kOffset});
  }
  return clock_offset(other, main);
}

TEST(ClockOffset, LiesWithinItsErrorOfTheTruth) {
  const ClockOffset found = offset_of({{100, 130, 50}, {300, 290, 40}, {500, 555, 90}});
  EXPECT_NEAR(static_cast<double>(found.offset_ns), static_cast<double>(kOffset), static_cast<double>(found.error_ns));
  EXPECT_LE(found.error_ns, 50);
}

TEST(ClockOffset, IsAsGoodAsItsBestRounds) {
  const ClockOffset rough = offset_of({{100, 100, 900}});
  const ClockOffset fine = offset_of({{100, 100, 900}, {3000, 3000, 20}});
  EXPECT_EQ(rough.error_ns, 900);
  EXPECT_EQ(fine.error_ns, 20);
  EXPECT_EQ(fine.offset_ns, kOffset);
}

TEST(ClockOffset, TakesTheBoundFromEachRankThatCameLate) {
  // In one round rank 0 arrives late, in the other this rank does: together they bracket the offset.
  const ClockOffset found = offset_of({{1000, 100, 10}, {2000, 2900, 10}});
  EXPECT_EQ(found.offset_ns, kOffset);
  EXPECT_EQ(found.error_ns, 10);
}

TEST(ClockOffset, RefusesRoundsThatDoNotBelongTogether) {
  EXPECT_THROW((void)clock_offset({}, {}), UsageError);
  EXPECT_THROW((void)clock_offset({{1, 2}}, {{1, 2}, {3, 4}}), UsageError);
}

}  // namespace costs_test
}  // namespace lockstep::observe
