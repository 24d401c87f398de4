// SPDX-License-Identifier: Apache-2.0
// The state of a run as a checkpoint holds it, which anybody may have made.
#include "train/plan/run_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "support/fault_of.h"

namespace lockstep::train {
namespace run_state_test {

using test::fault_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// With every entry there is.
StateDict full_state() {
  RunState run{.step = 12, .epoch = 1, .batch = 4, .samples = 64, .loss_sum = 0.5, .loss_count = 8, .skipped = 2};
  run.best = Metric{.name = "accuracy", .value = 0.5};
  run.best_step = 8;
  run.plateau = PlateauState{.lr = 0.1, .bad = 1, .cooldown = 2};
  run.stages.stage = 2;
  run.stages.base_step = 8;
  run.begun_replicas = 2;
  return to_state(run);
}

TEST(RunState, IsReadBackAsItWasWritten) {
  const RunState run = run_state_of(full_state());
  EXPECT_EQ(run.step, 12);
  EXPECT_EQ(run.batch, 4);
  EXPECT_EQ(run.stages.stage, 2);
  EXPECT_EQ(run.stages.base_step, 8);
  EXPECT_EQ(run.begun_replicas, 2);
}

TEST(RunState, RefusesByNameEachCountThatNoRunCanHave) {
  int counts = 0;
  for (const auto& [name, value] : full_state()) {
    if (!std::holds_alternative<std::int64_t>(value)) continue;
    ++counts;
    for (const std::int64_t absurd : {std::int64_t{-5}, std::int64_t{1'000'000'000'000'000'000}, INT64_MIN}) {
      StateDict state = full_state();
      state[name] = absurd;
      EXPECT_THAT(fault_of<DataError>([&] { (void)run_state_of(state); }),
                  AllOf(HasSubstr(name + " is " + std::to_string(absurd)), HasSubstr("make sense")))
          << name;
    }
  }
  EXPECT_GE(counts, 10);
  StateDict third = full_state();
  third["stages.stage"] = std::int64_t{3};
  EXPECT_THAT(fault_of<DataError>([&] { (void)run_state_of(third); }), HasSubstr("1 and 2 make sense"));
}

// Such an epoch would have no end.
TEST(RunState, StandsNotBehindTheLastBatchOfItsEpoch) {
  const RunState run = run_state_of(full_state());
  EXPECT_NO_THROW(require_place(run, 4));
  EXPECT_THAT(fault_of<DataError>([&] { require_place(run, 3); }), HasSubstr("batch is 4, and an epoch has 3 batches"));
}

}  // namespace run_state_test
}  // namespace lockstep::train
