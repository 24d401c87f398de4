// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/named_tensors.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace named_tensors_test {

using ::testing::HasSubstr;

/// What load_tensors says of `state`, or "" where it takes it.
std::string complaint(const NamedTensors& items, const StateDict& state) {
  try {
    load_tensors(items, state);
  } catch (const DataError& error) {
    return error.message();
  }
  return "";
}

TEST(NamedTensors, KeepTiedWeightsUnderTheirFirstName) {
  const at::Tensor shared = at::ones({2});
  const NamedTensors kept = tensor::without_repeats({{"a", shared}, {"b", shared}, {"c", at::ones({1})}, {"d", {}}});
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept[0].first, "a");
  EXPECT_EQ(kept[1].first, "c");
}

TEST(NamedTensors, LoadWhatWasSaved) {
  const NamedTensors from{{"w", at::full({2, 2}, 3.0)}};
  const NamedTensors into{{"w", at::zeros({2, 2})}};
  EXPECT_EQ(complaint(into, to_state_dict(from)), "");
  EXPECT_TRUE(into[0].second.equal(from[0].second));
}

TEST(NamedTensors, LoadIntoParametersThatRequireGradients) {
  const at::Tensor weight = at::zeros({2}).requires_grad_();
  EXPECT_EQ(complaint({{"w", weight}}, {{"w", at::ones({2})}}), "");
  EXPECT_TRUE(weight.is_leaf());
  EXPECT_TRUE(weight.detach().equal(at::ones({2})));
}

TEST(NamedTensors, RefuseAStateThatDoesNotFitAndCopyNothing) {
  const NamedTensors into{{"a", at::zeros({2})}, {"weight", at::zeros({2, 3})}};
  EXPECT_THAT(complaint(into, {{"a", at::ones({2})}}), HasSubstr("lacks 'weight' (Float [2, 3])"));
  EXPECT_THAT(complaint(into, {{"a", at::ones({2})}, {"weight", at::zeros({3, 2})}}),
              HasSubstr("'weight' is Float [3, 2] in the saved state and Float [2, 3] here"));
  EXPECT_THAT(complaint(into, {{"a", at::ones({2})}, {"weight", at::zeros({2, 3}, at::kDouble)}}), HasSubstr("Double"));
  EXPECT_THAT(complaint(into, {{"a", at::ones({2})}, {"weight", std::int64_t{3}}}), HasSubstr("'weight' is no tensor"));
  EXPECT_THAT(complaint(into, {{"a", at::ones({2})}, {"weight", at::zeros({2, 3})}, {"weights", 1.0}}),
              HasSubstr("did you mean 'weight'?"));
  EXPECT_TRUE(into[0].second.equal(at::zeros({2})));
}

TEST(NamedTensors, LoadTiedWeightsUnderAnyOfTheirNames) {
  const at::Tensor shared = at::zeros({2});
  const NamedTensors into{{"a", shared}, {"b", shared}, {"c", at::zeros({1})}};
  const at::Tensor other = at::ones({1});
  EXPECT_EQ(complaint(into, {{"a", at::full({2}, 1.0)}, {"b", at::full({2}, 1.0)}, {"c", other}}), "");
  EXPECT_TRUE(shared.equal(at::full({2}, 1.0)));
  EXPECT_EQ(complaint(into, {{"b", at::full({2}, 2.0)}, {"c", other}}), "");
  EXPECT_TRUE(shared.equal(at::full({2}, 2.0)));
  const at::Tensor nans = at::full({2}, std::nan(""));
  EXPECT_EQ(complaint(into, {{"a", nans}, {"b", nans.clone()}, {"c", other}}), "") << "bits are compared, not numbers";
  EXPECT_THAT(complaint(into, {{"c", other}}), HasSubstr("lacks 'a'"));
  EXPECT_THAT(complaint(into, {{"a", at::full({2}, 0.0)}, {"b", at::full({2}, -0.0)}, {"c", other}}),
              HasSubstr("'a' and 'b' are one tensor here and differ"));
}

}  // namespace named_tensors_test
}  // namespace lockstep
