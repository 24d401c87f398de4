// SPDX-License-Identifier: Apache-2.0
// The skipped samples in a run's state.
#include "train/plan/run_state.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/checkpoint/safetensors.h"
#include "lockstep/tensor/state_part.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace run_state_test {

using train::run_state_of;
using train::RunState;
using train::to_state;

/// A run that has skipped `count` samples with indices of seven digits.
RunState run_with(std::int64_t count) {
  RunState run{.step = 3};
  for (std::int64_t i = 0; i < count; ++i) run.bad_samples.insert(run.bad_samples.end(), 1'000'000 + i);
  return run;
}

TEST(RunState, OfARunThatSkippedMoreSamplesThanAStringHoldsIsReadBack) {
  const test::TempDir folder;
  const RunState run = run_with(2'100'000);  // as a string: 16.8 MB, more than a load reads
  write_safetensors(FileSystem::system(), folder / "run.safetensors", to_state(run));
  const RunState back = run_state_of(read_safetensors(FileSystem::system(), folder / "run.safetensors"));
  EXPECT_EQ(back.step, 3);
  EXPECT_TRUE(back.bad_samples == run.bad_samples);
}

TEST(RunState, IsReadBackFromTheSharesOfSeveralRanks) {
  const RunState run = run_with(7);
  const StateDict state = to_state(run);
  EXPECT_EQ(run_state_of(join_parts({part_of(state, 0, 3), part_of(state, 1, 3), part_of(state, 2, 3)})).bad_samples,
            run.bad_samples);
}

TEST(RunState, ReadsTheSkippedSamplesOfAnOlderVersion) {
  StateDict state = to_state(RunState{});
  EXPECT_EQ(state.count("bad_samples"), 0U) << "none were skipped";
  state["bad_samples"] = std::string("5,20");
  EXPECT_EQ(run_state_of(state).bad_samples, (std::set<std::int64_t>{5, 20}));
}

TEST(RunState, RefusesSkippedSamplesOfAnotherType) {
  StateDict state = to_state(RunState{});
  state["bad_samples"] = at::zeros({2}, at::kFloat);
  EXPECT_THROW((void)run_state_of(state), DataError);
  state["bad_samples"] = std::int64_t{5};
  EXPECT_THROW((void)run_state_of(state), DataError);
}

}  // namespace run_state_test
}  // namespace lockstep
