// SPDX-License-Identifier: Apache-2.0
// A state cut into parts and joined again, for every number of parts.
#include "lockstep/tensor/state_part.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace state_part_test {

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
  EXPECT_EQ(why_not(parts), "the parts of 'w' make no whole: a piece begins at element 50, and 25 were before it");
  parts = good;
  parts.pop_back();
  EXPECT_EQ(why_not(parts), "the parts of 'w' make no whole: they have 75 of 100 elements");
  parts = good;
  parts.push_back(good[2]);
  EXPECT_EQ(why_not(parts), "the parts of 'w' make no whole: a piece begins at element 50, and 75 were before it");
  parts = good;
  parts[2].entries["w"] = std::get<at::Tensor>(good[2].entries.at("w")).to(at::kDouble);
  EXPECT_EQ(why_not(parts), "the parts of 'w' make no whole: they are of other shapes or dtypes");
  parts = good;
  for (auto& part : parts) part.slices["w"].shape = {1LL << 40, 1LL << 40};
  EXPECT_EQ(why_not(parts), "the parts of 'w' make no whole: its shape is no shape");
  for (const std::vector<std::int64_t>& strides : {std::vector<std::int64_t>{2}, {1, 1}, {0}, {-1}}) {
    parts = good;
    for (auto& part : parts) part.slices["w"].strides = strides;
    EXPECT_EQ(why_not(parts), "the parts of 'w' make no whole: their strides are not those of a dense tensor");
  }
  parts = cut({{"n", std::int64_t{1}}}, 2);
  parts[1].entries["n"] = std::int64_t{1};
  EXPECT_EQ(why_not(parts), "two parts hold 'n'");
}

}  // namespace state_part_test
}  // namespace lockstep
