// SPDX-License-Identifier: Apache-2.0
// Runs with sharded optimizer state and synced batch norm: the digest of one that has neither processes nor shards.
#include <gmock/gmock.h>

#include <cstdlib>

#include "support/alone.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"
#include "train/noisy_task.h"

namespace lockstep {
namespace zero_test {

using ::lockstep::test::digest_of;
using ::lockstep::test::NoisyRun;
using ::lockstep::test::TempDir;
using ::lockstep::test::train;
using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;

/// A constant learning rate: the number of steps is then no part of the result so far.
NoisyRun run_with(std::int64_t steps, bool zero) {
  NoisyRun run{.resume = "auto"};
  run.config.max_steps = steps;
  run.config.schedule.type = "none";
  run.config.sync_batchnorm = true;
  run.config.optimizer.zero = zero;
  return run;
}

std::string variable(const char* name) { return std::getenv(name) == nullptr ? "" : std::getenv(name); }

/// One leg of a run on `world` processes; the ranks learn from the environment which.
void run_leg(const std::filesystem::path& folder, int world, std::int64_t steps) {
  run_ranks(current_test(),
            [](Job& job) {
              train(job, variable("LOCKSTEP_TEST_RUN"),
                    run_with(std::atoi(variable("LOCKSTEP_TEST_STEPS").c_str()), true));
            },
            {.world = world,
             .env = {{"LOCKSTEP_TEST_RUN", folder.string()}, {"LOCKSTEP_TEST_STEPS", std::to_string(steps)}}});
}

TEST(ZeroRun, FromTwoToFourToOneProcessHasTheDigestOfOneThatWasNeverSharded) {
  const TempDir folder;
  run_leg(folder / "run", 2, 4);
  run_leg(folder / "run", 4, 7);
  train(alone(), folder / "run", run_with(10, true));
  train(alone(), folder / "plain", run_with(10, false));
  EXPECT_EQ(digest_of(folder / "run"), digest_of(folder / "plain"));
}

TEST(ZeroRun, GoesOnWithoutZeroAndWithItAgain) {
  const TempDir folder;
  run_leg(folder / "run", 3, 3);
  train(alone(), folder / "run", run_with(6, false));
  train(alone(), folder / "run", run_with(8, true));
  train(alone(), folder / "plain", run_with(8, false));
  EXPECT_EQ(digest_of(folder / "run"), digest_of(folder / "plain"));
}

TEST(ZeroRun, SyncedBatchNormIsAnotherResultAndNoOtherSettingIs) {
  const TempDir folder;
  NoisyRun unsynced = run_with(4, false);
  unsynced.config.sync_batchnorm = false;
  train(alone(), folder / "unsynced", unsynced);
  train(alone(), folder / "synced", run_with(4, false));
  train(alone(), folder / "sharded", run_with(4, true));
  EXPECT_NE(digest_of(folder / "synced"), digest_of(folder / "unsynced"));
  EXPECT_EQ(digest_of(folder / "sharded"), digest_of(folder / "synced"));
}

}  // namespace zero_test
}  // namespace lockstep
