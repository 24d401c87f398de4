// SPDX-License-Identifier: Apache-2.0
#include "comm/core/tree_reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "support/tree_model.h"

namespace lockstep::comm {
namespace tree_reduce_test {

TEST(TreeReduce, HasTheBitsOfTheModelForEveryDtypeOpAndWorld) {
  for (const auto dtype : kDtypes) {
    for (const ReduceOp op : ops_for(dtype)) {
      for (const int world : {1, 2, 3, 4, 5, 7, 8, 13}) {
        const std::int64_t count = 4099;  // two blocks and an odd rest
        std::vector<at::Tensor> inputs;
        std::vector<TreeLeaf> leaves;
        for (int rank = 0; rank < world; ++rank) {
          inputs.push_back(random_values(dtype, count, rank));
          leaves.push_back({static_cast<const std::byte*>(inputs.back().data_ptr()), {rank, rank + 1}});
        }
        const at::Tensor expected = model(inputs, op);
        // The second destination is one of the sources, as in a bucket.
        at::Tensor out = at::empty({count}, dtype);
        auto* in_place = static_cast<std::byte*>(inputs.front().data_ptr());
        tree_reduce({dtype, op, world}, leaves, {static_cast<std::byte*>(out.data_ptr()), in_place}, count);
        EXPECT_TRUE(same_bits(out, expected)) << dtype << " op " << static_cast<int>(op) << " world " << world;
        EXPECT_TRUE(same_bits(inputs.front(), expected));
      }
    }
  }
}

TEST(TreeReduce, AddsAnyNumberOfRanks) {
  for (const int world : {2048, 2049, 4095, 4096, 5000, 10001}) {
    const at::Tensor values = random_values(at::kFloat, world, 0);
    std::vector<at::Tensor> inputs;
    std::vector<TreeLeaf> leaves;
    for (int rank = 0; rank < world; ++rank) {
      inputs.push_back(values[rank].view({1}));
      leaves.push_back({static_cast<const std::byte*>(inputs.back().data_ptr()), {rank, rank + 1}});
    }
    at::Tensor out = at::empty({1}, at::kFloat);
    tree_reduce({at::kFloat, ReduceOp::kSum, world}, leaves, {static_cast<std::byte*>(out.data_ptr())}, 1);
    EXPECT_TRUE(same_bits(out, model(inputs, ReduceOp::kSum))) << world;
  }
}

TEST(TreeReduce, AddsLeavesOfEverSmallerSubtrees) {  // each is one step deeper on the right
  const at::Tensor values = random_values(at::kFloat, 21, 0);
  std::vector<TreeLeaf> leaves;
  int begin = 0;
  for (int i = 0; i < 21; ++i) {
    const int end = i == 20 ? 1 << 20 : begin + (1 << (19 - i));
    leaves.push_back({static_cast<const std::byte*>(values[i].data_ptr()), {begin, end}});
    begin = end;
  }
  at::Tensor expected = values[20];
  for (int i = 19; i >= 0; --i) expected = values[i] + expected;
  at::Tensor out = at::empty({1}, at::kFloat);
  tree_reduce({at::kFloat, ReduceOp::kSum}, leaves, {static_cast<std::byte*>(out.data_ptr())}, 1);
  EXPECT_TRUE(same_bits(out, expected.view({1})));
}

TEST(TreeReduce, ConvertsEveryHalfAndRoundsEveryEdgeLikeLibtorch) {
  std::vector<std::int16_t> bits(65536);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::int16_t>(i);
  const at::Tensor zeros = at::zeros({65536}, at::kFloat);
  for (const auto dtype : {at::kHalf, at::kBFloat16}) {
    const at::Tensor all = at::from_blob(bits.data(), {65536}, at::kShort).clone().view(dtype);
    const at::Tensor other = all.flip(0).contiguous();
    at::Tensor out = at::empty({65536}, dtype);
    tree_reduce({dtype, ReduceOp::kSum},
                {{static_cast<const std::byte*>(all.data_ptr()), {0, 1}},
                 {static_cast<const std::byte*>(other.data_ptr()), {1, 2}}},
                {static_cast<std::byte*>(out.data_ptr())}, 65536);
    const at::Tensor expected = (all.to(at::kFloat) + other.to(at::kFloat)).to(dtype);
    const at::Tensor numbers = expected.isnan().logical_not();
    EXPECT_TRUE(same_bits(out.masked_select(numbers), expected.masked_select(numbers)));
    EXPECT_TRUE(at::equal(out.isnan(), expected.isnan()));
  }
}

TEST(TreeReduce, LetsANotANumberWinMinAndMax) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    float a[] = {nan, 1, 2};
    float b[] = {1, nan, 3};
    float out[3];
    tree_reduce({at::kFloat, op},
                {{reinterpret_cast<std::byte*>(a), {0, 1}}, {reinterpret_cast<std::byte*>(b), {1, 2}}},
                {reinterpret_cast<std::byte*>(out)}, 3);
    EXPECT_TRUE(std::isnan(out[0]));
    EXPECT_TRUE(std::isnan(out[1]));
    EXPECT_EQ(out[2], op == ReduceOp::kMin ? 2 : 3);
  }
}

}  // namespace tree_reduce_test
}  // namespace lockstep::comm
