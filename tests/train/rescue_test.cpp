// SPDX-License-Identifier: Apache-2.0
// A run folder that is lost while training, as "rm -rf" in the wrong window does it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/inspect.h"
#include "noisy_task.h"
#include "support/alone.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace rescue_test {

namespace fs = std::filesystem;

using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using test::digest_of;
using test::noisy_config;
using test::NoisyTask;
using ::testing::HasSubstr;

/// A run whose rank 0 does `harm` once step 4 is done.
struct Harmed {
  fs::path run_dir;
  fs::path rescue = {};
  std::function<void()> harm = {};
  std::string resume = "none";
};

TrainResult train(const Job& job, const Harmed& run) {
  NoisyTask task;
  TrainConfig config = noisy_config();
  TrainerOptions options{.recipe = "noisy", .run_dir = run.run_dir, .resume = run.resume, .rescue = run.rescue};
  if (run.harm && job.is_main()) {
    options.sinks.push_back(run_callbacks({.on_step = [&run](const StepResult& step) {
      if (step.step == 4) run.harm();
    }}));
  }
  return Trainer(job, task, config, options).fit();
}

std::string error_of(const Job& job, const Harmed& run) {
  try {
    (void)train(job, run);
    return "no error";
  } catch (const IoError& error) {
    return error.what();
  }
}

/// At one stroke, where a save may be under way.
void remove_run(const fs::path& run) {
  const fs::path aside = run.string() + "-removed";
  fs::rename(run, aside);
  fs::remove_all(aside);
}

TEST(LostRunFolder, ThatIsRemovedEndsTheRunAndSaysSo) {
  const test::TempDir folder;
  const fs::path run = folder / "run";
  const std::string error = error_of(alone(), {.run_dir = run, .harm = [&] { remove_run(run); }});
  EXPECT_THAT(error, HasSubstr("run was removed while the run was training in it"));
  EXPECT_THAT(error, HasSubstr("TrainerOptions::rescue"));
}

TEST(LostRunFolder, ThatIsAnotherOneNowIsNoticedToo) {
  const test::TempDir folder;
  const fs::path run = folder / "run";
  const std::string error = error_of(alone(), {.run_dir = run, .harm = [&] {
                                                 fs::rename(run, folder / "moved");
                                                 fs::create_directories(run / "checkpoints");
                                               }});
  EXPECT_THAT(error, HasSubstr("was replaced"));
}

TEST(LostRunFolder, WithARescueTheRunIsSavedThereAndResumesToTheSameDigest) {
  const test::TempDir folder;
  (void)train(alone(), {.run_dir = folder / "whole"});
  const fs::path run = folder / "run";
  const std::string error =
      error_of(alone(), {.run_dir = run, .rescue = folder / "rescue", .harm = [&] { remove_run(run); }});
  EXPECT_THAT(error, HasSubstr("run was removed"));
  EXPECT_THAT(error, HasSubstr("rescue/checkpoints/step-0000000"));
  EXPECT_FALSE(fs::exists(run)) << "what was removed stays removed";
  (void)train(alone(), {.run_dir = folder / "again", .resume = (folder / "rescue/checkpoints").string()});
  EXPECT_EQ(digest_of(folder / "again"), digest_of(folder / "whole"));
}

TEST(LostRunFolder, ASaveThatFailsIsMadeInTheRescue) {
  const test::TempDir folder;
  const fs::path run = folder / "run";
  const std::string error = error_of(alone(), {.run_dir = run, .rescue = folder / "rescue", .harm = [&] {
                                                 fs::rename(run / "checkpoints", folder / "aside");
                                                 std::ofstream(run / "checkpoints") << "a file";
                                               }});
  EXPECT_THAT(error, HasSubstr("rescue/checkpoints/step-0000000"));
}

TEST(LostRunFolder, AllRanksLeaveWithTheSameErrorAndOneCheckpoint) {
  const test::TempDir folder;
  run_ranks(current_test(),
            [](Job& job) {
              const fs::path base = std::getenv("LOCKSTEP_TEST_FOLDER");
              const std::string error = error_of(
                  job, {.run_dir = base / "run", .rescue = base / "rescue", .harm = [&] { remove_run(base / "run"); }});
              EXPECT_THAT(error, HasSubstr("run was removed"));
              EXPECT_THAT(error, HasSubstr("rescue/checkpoints/step-0000000"));
            },
            {.world = 2, .env = {{"LOCKSTEP_TEST_FOLDER", folder.path().string()}}});
  EXPECT_TRUE(
      verify_checkpoint(FileSystem::system(), load_checkpoint((folder / "rescue/checkpoints").string()).path()).ok());
}

TEST(Rescue, InsideTheRunFolderIsRefused) {
  const test::TempDir folder;
  EXPECT_THROW((void)train(alone(), {.run_dir = folder / "run", .rescue = folder / "run/rescue"}), UsageError);
}

}  // namespace rescue_test
}  // namespace lockstep
