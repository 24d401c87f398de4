// SPDX-License-Identifier: Apache-2.0
#include "train/ranks/share_state.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>

#include <cmath>
#include <limits>

#include "support/run_ranks.h"
#include "support/tree_model.h"

namespace lockstep::train {
namespace share_state_test {

RANKS_TEST(ShareState, EveryRankGetsEveryBitOfRankZeros, 3) {
  StateDict state;
  if (job.is_main()) {
    state = {{"weight", at::arange(6, at::kFloat).view({2, 3})},
             {"half", at::full({4}, 0.3, at::kBFloat16)},
             {"nothing", at::full({0}, 1.0)},
             {"step", std::int64_t{1} << 60},
             {"infinite", -std::numeric_limits<double>::infinity()},
             {"tenth", 0.1},
             {"on", true},
             {"name", std::string("a \"b\"\n\xC3\xA9")}};
  } else {
    state["other"] = std::int64_t{5};
  }
  const StateDict shared = share_state(state, job.group());
  ASSERT_EQ(shared.size(), 8U);
  const auto& weight = std::get<at::Tensor>(shared.at("weight"));
  EXPECT_TRUE(comm::same_bits(weight, at::arange(6, at::kFloat).view({2, 3})));
  EXPECT_EQ(std::get<at::Tensor>(shared.at("half")).scalar_type(), at::kBFloat16);
  EXPECT_EQ(std::get<at::Tensor>(shared.at("nothing")).numel(), 0);
  EXPECT_EQ(std::get<std::int64_t>(shared.at("step")), std::int64_t{1} << 60);
  EXPECT_EQ(std::get<double>(shared.at("infinite")), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(std::get<double>(shared.at("tenth")), 0.1);
  EXPECT_TRUE(std::get<bool>(shared.at("on")));
  EXPECT_EQ(std::get<std::string>(shared.at("name")), "a \"b\"\n\xC3\xA9");
}

RANKS_TEST(ShareState, NothingIsSharedAsNothing, 2) { EXPECT_TRUE(share_state({}, job.group()).empty()); }

}  // namespace share_state_test
}  // namespace lockstep::train
