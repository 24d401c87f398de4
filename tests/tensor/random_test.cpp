// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/random.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randperm.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace random_test {

TEST(Random, StateBringsTheSameNumbersBack) {
  seed_all(7);
  const at::Tensor state = random_state();
  const at::Tensor first = at::rand({5});
  EXPECT_FALSE(at::rand({5}).equal(first));
  set_random_state(state);
  EXPECT_TRUE(at::rand({5}).equal(first));
}

TEST(Random, GeneratorGivesPythonsPermutation) {
  // python3: torch.randperm(8, generator=torch.Generator().manual_seed(3)).tolist()
  const at::Tensor order = at::randperm(8, make_generator(3));
  const std::vector<std::int64_t> got(order.data_ptr<std::int64_t>(), order.data_ptr<std::int64_t>() + 8);
  EXPECT_EQ(got, (std::vector<std::int64_t>{2, 4, 3, 5, 1, 0, 6, 7}));
}

TEST(Random, StreamsOfOneSeedDiffer) {
  EXPECT_NE(stream_seed(1, 0), stream_seed(1, 1));
  EXPECT_NE(stream_seed(1, 1), stream_seed(2, 1));
  EXPECT_EQ(stream_seed(5, 9), stream_seed(5, 9));
}

TEST(Random, RefusesAForeignState) { EXPECT_THROW(set_random_state(at::ones({3})), DataError); }

}  // namespace random_test
}  // namespace lockstep
