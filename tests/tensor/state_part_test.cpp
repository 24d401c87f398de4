// SPDX-License-Identifier: Apache-2.0
// Groups of tensors: by name, in one block of memory, in parts.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/tensor/flat_layout.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/state_part.h"

namespace lockstep {
namespace state_part_test {

using ::testing::HasSubstr;

// A state split into parts and joined again, for every number of parts.

StateDict example() {
  StateDict state;
  state["a.bias"] = at::arange(3, at::kFloat);
  state["b.weight"] =
      at::arange(2 * 16 * 3 * 3, at::kFloat).view({2, 16, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast);
  state["c.half"] = at::arange(7, at::kBFloat16);
  state["d.count"] = at::full({}, 5, at::kLong);
  state["e.empty"] = at::empty({0, 4});
  state["step"] = std::int64_t{12};
  state["stage"] = std::string("first");
  return state;
}

std::vector<StatePart> cut(const StateDict& state, int world) {
  std::vector<StatePart> parts;
  for (int rank = 0; rank < world; ++rank) parts.push_back(part_of(state, rank, world));
  return parts;
}

std::int64_t bytes_of(const StatePart& part) {
  std::int64_t bytes = 0;
  for (const auto& [name, value] : part.entries) {
    if (const auto* tensor = std::get_if<at::Tensor>(&value)) bytes += static_cast<std::int64_t>(tensor->nbytes());
  }
  return bytes;
}

void expect_same(const StateDict& a, const StateDict& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, value] : a) {
    const auto* left = std::get_if<at::Tensor>(&value);
    if (left == nullptr) {
      if (const auto* number = std::get_if<std::int64_t>(&value)) {
        EXPECT_EQ(*number, std::get<std::int64_t>(b.at(name))) << name;
      } else {
        EXPECT_EQ(std::get<std::string>(value), std::get<std::string>(b.at(name))) << name;
      }
      continue;
    }
    const auto& right = std::get<at::Tensor>(b.at(name));
    EXPECT_EQ(left->scalar_type(), right.scalar_type()) << name;
    EXPECT_EQ(left->sizes(), right.sizes()) << name;
    EXPECT_TRUE(left->equal(right)) << name;
  }
}

TEST(StatePart, JoinsToTheWholeForEveryNumberOfParts) {
  for (int world = 1; world <= 40; ++world) {
    SCOPED_TRACE(world);
    expect_same(example(), join_parts(cut(example(), world)));
  }
}

TEST(StatePart, SharesTheBytesEvenly) {
  for (const int world : {2, 3, 4, 7}) {
    std::int64_t least = 1 << 30;
    std::int64_t most = 0;
    for (const StatePart& part : cut(example(), world)) {
      least = std::min(least, bytes_of(part));
      most = std::max(most, bytes_of(part));
    }
    EXPECT_LE(most - least, 16) << world << " parts: a border moves by less than an element, which has at most 8 bytes";
  }
}

TEST(StatePart, OfOneRankIsTheStateItself) {
  const StatePart whole = part_of(example(), 0, 1);
  EXPECT_TRUE(whole.slices.empty());
  expect_same(example(), whole.entries);
}

TEST(StatePart, DoesNotCopyContiguousTensors) {
  const StateDict state = {{"w", at::arange(100, at::kFloat)}};
  const StatePart second = part_of(state, 1, 2);
  EXPECT_EQ(std::get<at::Tensor>(second.entries.at("w")).data_ptr<float>(),
            std::get<at::Tensor>(state.at("w")).data_ptr<float>() + 50);
  EXPECT_EQ(second.slices.at("w"), (TensorSlice{.begin = 50, .shape = {100}}));
}

TEST(StatePart, PiecesMayBeCutInTheOrderOfTheMemory) {
  const at::Tensor weight =
      at::arange(2 * 8 * 3 * 3, at::kFloat).view({2, 8, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor memory = weight.as_strided({weight.numel()}, {1});
  std::vector<StatePart> parts;
  for (const auto& [begin, end] : {std::pair{0, 50}, {50, 51}, {51, 144}}) {
    StatePart& part = parts.emplace_back();
    part.entries["w"] = memory.slice(0, begin, end);
    part.slices["w"] = {.begin = begin, .shape = weight.sizes().vec(), .strides = weight.strides().vec()};
  }
  EXPECT_TRUE(std::get<at::Tensor>(join_parts(parts).at("w")).equal(weight));
}

std::string why_not(const std::vector<StatePart>& parts) {
  try {
    (void)join_parts(parts);
  } catch (const DataError& error) {
    return error.message();
  }
  return "";
}

TEST(StatePart, PartsThatMakeNoWholeAreRefusedByName) {
  const std::vector<StatePart> good = cut({{"w", at::arange(100, at::kFloat)}}, 4);
  auto parts = good;
  parts.erase(parts.begin() + 1);
  EXPECT_EQ(
      why_not(parts),
      "the parts of 'w' do not make a whole tensor: a piece begins at element 50, but the pieces before it have 25");
  parts = good;
  parts.pop_back();
  EXPECT_EQ(why_not(parts), "the parts of 'w' do not make a whole tensor: they have 75 of 100 elements");
  parts = good;
  parts.push_back(good[2]);
  EXPECT_EQ(
      why_not(parts),
      "the parts of 'w' do not make a whole tensor: a piece begins at element 50, but the pieces before it have 75");
  parts = good;
  parts[2].entries["w"] = std::get<at::Tensor>(good[2].entries.at("w")).to(at::kDouble);
  EXPECT_EQ(why_not(parts), "the parts of 'w' do not make a whole tensor: their shapes, strides or dtypes differ");
  parts = good;
  for (auto& part : parts) part.slices["w"].shape = {1LL << 40, 1LL << 40};
  EXPECT_EQ(why_not(parts), "the parts of 'w' do not make a whole tensor: its shape is not valid");
  for (const std::vector<std::int64_t>& strides : {std::vector<std::int64_t>{2}, {1, 1}, {0}, {-1}}) {
    parts = good;
    for (auto& part : parts) part.slices["w"].strides = strides;
    EXPECT_EQ(why_not(parts),
              "the parts of 'w' do not make a whole tensor: their strides are not those of a dense tensor");
  }
  parts = cut({{"n", std::int64_t{1}}}, 2);
  parts[1].entries["n"] = std::int64_t{1};
  EXPECT_EQ(why_not(parts), "two parts hold 'n'");
}

/// load_tensors' complaint about `state`; "" if it accepts it.
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
              HasSubstr("'weight' is Float [3, 2] in the saved state but Float [2, 3] here"));
  EXPECT_THAT(complaint(into, {{"a", at::ones({2})}, {"weight", at::zeros({2, 3}, at::kDouble)}}), HasSubstr("Double"));
  EXPECT_THAT(complaint(into, {{"a", at::ones({2})}, {"weight", std::int64_t{3}}}),
              HasSubstr("'weight' is not a tensor"));
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
              HasSubstr("'a' and 'b' are one tensor here but differ"));
}

}  // namespace state_part_test
}  // namespace lockstep

namespace lockstep::tensor {
namespace state_part_test {

using Strides = std::vector<std::int64_t>;

TEST(FlatLayout, StartsEachTensorOnACacheLine) {
  const FlatLayout floats =
      flat_layout({{"a", at::ones({3})}, {"b", at::ones({17})}, {"c", at::ones({0})}}, at::kFloat);
  EXPECT_EQ(floats.slots[0].offset, 0);
  EXPECT_EQ(floats.slots[1].offset, 16);
  EXPECT_EQ(floats.slots[2].offset, 48);
  EXPECT_EQ(floats.numel, 48);
  const FlatLayout halves =
      flat_layout({{"a", at::ones({3}, at::kBFloat16)}, {"b", at::ones({1}, at::kBFloat16)}}, at::kBFloat16);
  EXPECT_EQ(halves.slots[1].offset, 32);
}

TEST(FlatLayout, KeepsChannelsLastStridesAndMemoryOrder) {
  const at::Tensor weight =
      at::arange(3 * 16 * 3 * 3, at::kFloat).view({3, 16, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast);
  const FlatLayout layout = flat_layout({{"pad", at::ones({1})}, {"w", weight}}, at::kFloat);
  EXPECT_EQ(layout.slots[1].strides, (Strides{144, 1, 48, 16}));
  const at::Tensor buffer = at::zeros({layout.numel});
  const at::Tensor view = flat_view(buffer, layout.slots[1]);
  view.copy_(weight);
  EXPECT_TRUE(view.equal(weight));
  EXPECT_EQ(buffer[16 + 1].item<float>(), weight.data_ptr<float>()[1]);
}

TEST(FlatLayout, MakesOverlappingTensorsContiguous) {
  const FlatLayout layout = flat_layout({{"e", at::ones({1, 3}).expand({2, 3})}}, at::kFloat);
  EXPECT_EQ(layout.slots[0].strides, (Strides{3, 1}));
}

TEST(FlatLayout, ViewsAPartOfALargerBuffer) {
  const at::Tensor whole = at::zeros({64});
  const FlatLayout layout = flat_layout({{"a", at::ones({2})}}, at::kFloat);
  flat_view(whole.narrow(0, 32, 32), layout.slots[0]).fill_(1);
  EXPECT_EQ(whole[32].item<float>(), 1);
  EXPECT_EQ(whole[0].item<float>(), 0);
}

TEST(FlatLayout, RefusesAnotherDtype) {
  EXPECT_THROW((void)flat_layout({{"a", at::ones({2}, at::kDouble)}}, at::kFloat), UsageError);
}

}  // namespace state_part_test
}  // namespace lockstep::tensor
