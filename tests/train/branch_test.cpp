// SPDX-License-Identifier: Apache-2.0
// Runs that begin at a checkpoint of another run's folder.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/alone.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"
#include "train/noisy_task.h"

namespace lockstep {
namespace branch_test {

namespace fs = std::filesystem;
using ::lockstep::test::digest_of;
using ::lockstep::test::TempDir;
using ::lockstep::test::train;
using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;

std::string step_of(const fs::path& run, int step) {
  return (run / fmt::format("checkpoints/step-{:08}", step)).string();
}

/// A group that the launcher has restarted, with the resume setting that the user gave.
TEST(Branch, RestartedBeforeItsFirstSaveBeginsAgainAtTheSameCheckpoint) {
  const TempDir folder;
  const char* const given = std::getenv("LOCKSTEP_TEST_SHARED");
  const fs::path shared = given != nullptr ? fs::path(given) : folder.path();
  if (given == nullptr) train(alone(), shared / "run");
  run_ranks(current_test(), [&](Job& job) { train(job, shared / "branch", {.resume = step_of(shared / "run", 4)}); },
            {.world = 2, .env = {{"LOCKSTEP_TEST_SHARED", shared.string()}, {"TORCHELASTIC_RESTART_COUNT", "1"}}});
  EXPECT_EQ(digest_of(shared / "branch"), digest_of(shared / "run"));
}

}  // namespace branch_test
}  // namespace lockstep
