// SPDX-License-Identifier: Apache-2.0
// Runs that are asked to stop, and runs whose folder disappears.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/inspect.h"
#include "lockstep/launch/restart.h"
#include "noisy_task.h"
#include "support/alone.h"
#include "support/fault_of.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"
#include "train/loop/requeue.h"
#include "train/noisy_task.h"
#include "train/plan/stop.h"

namespace lockstep {
namespace stop_test {

namespace fs = std::filesystem;
using ::lockstep::test::digest_of;
using ::lockstep::test::NoisyRun;
using ::lockstep::test::NoisyTask;
using ::lockstep::test::TempDir;
using ::lockstep::test::train;
using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using ::testing::HasSubstr;
using train::StopReason;
using train::StopSignals;
using train::StopWish;

// A run that is asked to stop saves and ends with all ranks at the same step, and resumes as if uninterrupted.

class ManualClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const override { return time; }
  TimePoint time{};
};

TEST(StopWish, IsThereOnceTheTimeIsOver) {
  ManualClock clock;
  const StopWish limited(clock, std::chrono::seconds(60));
  const StopWish unlimited(clock, std::chrono::seconds(0));
  EXPECT_EQ(limited.reason(), StopReason::kNone);
  clock.time += std::chrono::milliseconds(59'999);
  EXPECT_EQ(limited.reason(), StopReason::kNone);
  clock.time += std::chrono::milliseconds(1);
  EXPECT_EQ(limited.reason(), StopReason::kTimeLimit);
  EXPECT_EQ(unlimited.reason(), StopReason::kNone);
}

TEST(StopSignals, NoteWhatComesWhileTheyLiveAndPutTheOldHandlersBack) {
  {
    const StopSignals signals;
    EXPECT_EQ(StopSignals::seen(), StopReason::kNone);
    ::raise(SIGUSR1);
    EXPECT_EQ(StopSignals::seen(), StopReason::kUserSignal);
    ::raise(SIGTERM);
    EXPECT_EQ(StopSignals::seen(), StopReason::kTerminated) << "who says that the job is to end has the last word";
  }
  const StopSignals again;
  EXPECT_EQ(StopSignals::seen(), StopReason::kNone);
  struct sigaction now {};
  ::sigaction(SIGUSR1, nullptr, &now);
  EXPECT_NE(now.sa_handler, SIG_DFL);
}

volatile sig_atomic_t own_calls = 0;

TEST(StopSignals, LeaveAHandlerOfTheProgramAlone) {
  const auto before = ::signal(SIGUSR1, [](int) { own_calls = own_calls + 1; });
  {
    const StopSignals signals;
    ::raise(SIGUSR1);
    EXPECT_EQ(own_calls, 1);
    EXPECT_EQ(StopSignals::seen(), StopReason::kNone);
  }
  ::signal(SIGUSR1, before);
}

TEST(StopSignals, TakeTwoSigtermsAtOnceForOneWish) {
  const StopSignals signals;
  ::raise(SIGTERM);
  ::raise(SIGTERM);
  EXPECT_EQ(StopSignals::seen(), StopReason::kTerminated);
}

TEST(StopSignals, TakeACtrlCOfTheTerminalAndTheLaunchersForOneWishAndTwoOfTheTerminalForTwo) {
  using train::asks_again;
  EXPECT_FALSE(asks_again({.ms = 5, .from_terminal = true}, {.ms = 900, .from_terminal = false}));
  EXPECT_FALSE(asks_again({.ms = 5, .from_terminal = false}, {.ms = 900, .from_terminal = true}));
  EXPECT_TRUE(asks_again({.ms = 5, .from_terminal = true}, {.ms = 105, .from_terminal = true}));
  EXPECT_TRUE(asks_again({.ms = 5, .from_terminal = false}, {.ms = 1005, .from_terminal = false}));
}

TEST(StopSignals, NoteACtrlCAndWhatComesWithItForOneWish) {
  const StopSignals signals;
  ::raise(SIGINT);
  ::raise(SIGINT);
  ::raise(SIGTERM);
  EXPECT_EQ(StopSignals::seen(), StopReason::kInterrupted);
}

TEST(StopSignalsDeathTest, ASigtermASecondAfterTheFirstEndsTheProcess) {
  EXPECT_EXIT(
      {
        const StopSignals signals;
        ::raise(SIGTERM);
        ::usleep(1'050'000);  // the handler has its own clock
        ::raise(SIGTERM);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

/// A signal sent to rank `rank` in its `number`-th forward pass.
struct Kick {
  int signal = SIGTERM;
  std::int64_t number = 1;
  int rank = 0;
};

NoisyRun kicked(const Kick& kick, int rank) {
  NoisyRun run{.resume = "auto"};
  run.config.checkpoint.every_steps = 0;
  run.task.on_forward = [kick, rank](std::int64_t number) {
    if (number == kick.number && rank == kick.rank) ::kill(::getpid(), kick.signal);
  };
  return run;
}

TEST(Stop, ByCtrlCLeavesACheckpointAndAsksSlurmForNothing) {
  const TempDir folder;
  const TrainResult stopped = train(alone(), folder / "run", kicked({.signal = SIGINT, .number = 5}, 0));
  EXPECT_EQ(stopped.stopped_by, "SIGINT");
  EXPECT_EQ(load_checkpoint((folder / "run").string()).step(), stopped.steps);
  EXPECT_FALSE(train::asks_for_requeue(StopReason::kInterrupted));
}

TEST(Stop, AtAnyMomentLeavesACheckpointFromWhichTheRunGoesOnToTheSameDigest) {
  const TempDir folder;
  train(alone(), folder / "whole");
  const std::string expected = digest_of(folder / "whole");
  // 4 replicas of 2 batches per step, 3 steps per epoch (the last with one batch): the signals arrive at the start, in
  // the middle and at the end of epochs.
  for (const std::int64_t number : {1, 7, 9, 15, 20, 22, 31, 40, 55}) {
    SCOPED_TRACE(number);
    const fs::path run = folder / fmt::format("stopped-{}", number);
    const TrainResult stopped = train(alone(), run, kicked({.number = number}, 0));
    EXPECT_EQ(stopped.stopped_by, "SIGTERM");
    EXPECT_LT(stopped.steps, 10);
    EXPECT_EQ(load_checkpoint(run.string()).step(), stopped.steps);
    EXPECT_FALSE(fs::exists(run / "summary.json"));
    const TrainResult rest = train(alone(), run, {.resume = "auto"});
    EXPECT_EQ(rest.stopped_by, "");
    EXPECT_EQ(rest.steps, 10);
    EXPECT_EQ(digest_of(run), expected);
  }
}

/// The lines of epochs in a run's log, up to their speed.
std::vector<std::string> epochs_of(const fs::path& run) {
  std::ifstream log(run / "log.jsonl");
  std::vector<std::string> found;
  for (std::string line; std::getline(log, line);) {
    if (line.find("\"event\": \"epoch\"") == std::string::npos) continue;
    found.push_back(line.substr(0, line.find("\"images_per_s\"")));
  }
  return found;
}

TEST(Stop, AtTheEndOfAnEpochLeavesItsLearningRateToTheNextProcess) {
  const TempDir folder;
  train(alone(), folder / "whole");
  const TrainResult stopped = train(alone(), folder / "run", kicked({.number = 9}, 0));
  ASSERT_EQ(stopped.steps, 3) << "the last step of the first epoch, which is not evaluated yet";
  train(alone(), folder / "run", {.resume = "auto"});
  const std::vector<std::string> epochs = epochs_of(folder / "run");
  EXPECT_EQ(epochs, epochs_of(folder / "whole"));
  ASSERT_FALSE(epochs.empty());
  EXPECT_THAT(epochs.front(), HasSubstr("\"lr\": "));
}

/// Returns the number of lines of the run's log that report the end of an epoch after step 3.
std::ptrdiff_t epochs_after_three(const fs::path& run) {
  std::ifstream log(run / "log.jsonl");
  std::ptrdiff_t count = 0;
  for (std::string line; std::getline(log, line);) {
    const bool is_epoch = line.find("\"event\": \"epoch\"") != std::string::npos;
    if (is_epoch && line.find("\"step\": 3,") != std::string::npos) ++count;
  }
  return count;
}

TEST(Stop, AtTheEndOfAnEpochTheRepeatedEvaluationIsLoggedOnce) {
  const TempDir folder;
  const fs::path run = folder / "run";
  EXPECT_EQ(train(alone(), run, kicked({.number = 12}, 0)).steps, 3) << "the first epoch's last step";
  EXPECT_EQ(epochs_after_three(run), 0);
  NoisyRun failing;
  failing.config.checkpoint.every_steps = 0;
  TrainerOptions options{.recipe = "noisy", .run_dir = run, .resume = "auto"};
  options.sinks.push_back(run_callbacks({.on_step = [](const StepResult& step) {
    if (step.step == 4) throw std::runtime_error("killed");
  }}));
  EXPECT_ANY_THROW((void)Trainer(alone(), failing.task, failing.config, options).fit());
  EXPECT_EQ(epochs_after_three(run), 1);
  EXPECT_EQ(train(alone(), run, {.resume = "auto"}).steps, 10);
  EXPECT_EQ(epochs_after_three(run), 1) << "evaluated again, because nothing was saved since";
}

std::string variable(const char* name) { return std::getenv(name) == nullptr ? "" : std::getenv(name); }

TEST(Stop, AllRanksLeaveAtOneStepWhicheverWasAsked) {
  const TempDir folder;
  run_ranks(current_test(),
            [](Job& job) {
              const NoisyRun run = kicked({.signal = SIGUSR1, .number = 5, .rank = 2}, job.rank());
              const TrainResult result = train(job, variable("LOCKSTEP_TEST_RUN"), run);
              EXPECT_EQ(result.stopped_by, "SIGUSR1");
              EXPECT_FALSE(result.requeued);
              EXPECT_LT(result.steps, 10);
              job.store().set(fmt::format("steps/{}", job.rank()), std::to_string(result.steps));
              for (int rank = 0; rank < job.world_size(); ++rank) {
                EXPECT_EQ(job.store().get(fmt::format("steps/{}", rank), job.timeout()), std::to_string(result.steps));
              }
            },
            {.world = 3, .env = {{"LOCKSTEP_TEST_RUN", (folder / "run").string()}}});
  train(alone(), folder / "whole");
  train(alone(), folder / "run", {.resume = "auto"});
  EXPECT_EQ(digest_of(folder / "run"), digest_of(folder / "whole"));
}

/// All ranks must take part when rank 0 gathers the optimizer state, even if the step has just been saved.
TEST(Stop, AtAStepThatIsSavedAnywayWorksWithAShardedOptimizer) {
  const TempDir folder;
  run_ranks(current_test(),
            [](Job& job) {
              NoisyRun run = kicked({.number = 5, .rank = 1}, job.rank());
              run.config.checkpoint.every_steps = 1;
              run.config.optimizer.zero = true;
              EXPECT_EQ(train(job, variable("LOCKSTEP_TEST_RUN"), run).stopped_by, "SIGTERM");
            },
            {.world = 2, .env = {{"LOCKSTEP_TEST_RUN", (folder / "run").string()}}});
  train(alone(), folder / "whole");
  train(alone(), folder / "run", {.resume = "auto"});
  EXPECT_EQ(digest_of(folder / "run"), digest_of(folder / "whole"));
}

TEST(Stop, WhenTheTimeIsOver) {
  const TempDir folder;
  NoisyRun run;
  run.config.checkpoint.every_steps = 0;  // a save would reduce the loss immediately
  Trainer trainer(alone(), run.task, run.config,
                  {.recipe = "noisy", .run_dir = folder / "run", .max_time = std::chrono::nanoseconds(1)});
  const TrainResult result = trainer.fit();
  EXPECT_EQ(result.stopped_by, "--max-time");
  EXPECT_EQ(result.steps, 2) << "agreed on with the first step's loss, which is combined in the second";
  const std::string log = FileSystem::system().read(folder / "run/log.jsonl");
  EXPECT_THAT(log, HasSubstr(R"({"event": "stop", "step": 2, "reason": "--max-time"})"));
}

TEST(Stop, ThatComesWithTheLastStepIsTheEnd) {
  const TempDir folder;
  std::int64_t forwards = 0;
  NoisyRun counting;
  counting.task.on_forward = [&forwards](std::int64_t number) { forwards = number; };
  train(alone(), folder / "counted", counting);
  const TrainResult result = train(alone(), folder / "run", kicked({.number = forwards}, 0));
  EXPECT_EQ(result.stopped_by, "");
  EXPECT_EQ(result.steps, 10);
  EXPECT_TRUE(fs::exists(folder / "run/summary.json"));
}

/// Puts a fake scontrol into PATH that logs its requests, and sets the variables of a Slurm job.
class Slurm : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("PATH", (folder_.path().string() + ":" + path_).c_str(), 1);
    ::setenv("SLURM_JOB_ID", "4711", 1);
  }
  void TearDown() override {
    ::setenv("PATH", path_.c_str(), 1);
    for (const char* name : {"SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"}) ::unsetenv(name);
  }
  void answer(int code) {
    std::ofstream(folder_ / "scontrol") << fmt::format(
        "#!/bin/sh\necho \"$@\" >> {}/asked\necho it is disabled >&2\nexit {}\n", folder_.path().string(), code);
    ::chmod((folder_ / "scontrol").c_str(), 0755);
  }
  std::string asked() { return fs::exists(folder_ / "asked") ? FileSystem::system().read(folder_ / "asked") : ""; }

  TempDir folder_;
  std::string path_ = std::getenv("PATH");
};

TEST_F(Slurm, IsAskedToStartTheJobAgainAfterSigusr1AndNotAfterSigterm) {
  answer(0);
  EXPECT_FALSE(train(alone(), folder_ / "ended", kicked({.signal = SIGTERM}, 0)).requeued);
  EXPECT_EQ(asked(), "");
  EXPECT_TRUE(train(alone(), folder_ / "signalled", kicked({.signal = SIGUSR1}, 0)).requeued);
  EXPECT_EQ(asked(), "requeue 4711\n");
}

TEST_F(Slurm, IsAskedForTheTaskOfAnArrayJob) {
  ::setenv("SLURM_ARRAY_JOB_ID", "12", 1);
  ::setenv("SLURM_ARRAY_TASK_ID", "3", 1);
  EXPECT_EQ(train::slurm_job(), "12_3");
}

TEST_F(Slurm, ThatDoesNotTakeItIsNoRequeue) {
  answer(1);
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(train::requeue("4711"));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("(exit code 1: it is disabled): restart"));
  fs::remove(folder_ / "scontrol");
  EXPECT_FALSE(train::requeue("4711"));
}

}  // namespace stop_test

namespace rescue_test {

namespace fs = std::filesystem;
using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using test::digest_of;
using test::noisy_config;
using test::NoisyTask;
using ::testing::HasSubstr;

// A run folder that is removed during training, for example by "rm -rf" in the wrong terminal.

/// A run in which rank 0 does `harm` after step 4.
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

/// Returns true if the launcher does not restart a job that fails with this error.
bool ends_the_job(const std::string& error) {
  return !decide_restart({.error_type = "IoError", .error_text = error, .max_restarts = 3}).restart;
}

/// Removes the run in one go, because a save may be in progress.
void remove_run(const fs::path& run) {
  const fs::path aside = run.string() + "-removed";
  fs::rename(run, aside);
  fs::remove_all(aside);
}

/// Puts a file in the place of the run's folder of checkpoints in one go, because a save may be in progress.
void replace_checkpoints_by_a_file(const fs::path& run) {
  const fs::path file = run.string() + "-file";
  std::ofstream(file) << "a file";
  ASSERT_EQ(::renameat2(AT_FDCWD, file.c_str(), AT_FDCWD, (run / "checkpoints").c_str(), RENAME_EXCHANGE), 0);
}

TEST(LostRunFolder, ThatIsRemovedEndsTheRunAndSaysSo) {
  const test::TempDir folder;
  const fs::path run = folder / "run";
  const std::string error = error_of(alone(), {.run_dir = run, .harm = [&] { remove_run(run); }});
  EXPECT_THAT(error, HasSubstr("run was removed while the run was training in it"));
  EXPECT_THAT(error, HasSubstr("TrainerOptions::rescue"));
  EXPECT_TRUE(ends_the_job(error));
}

TEST(LostRunFolder, ThatIsAnotherOneNowIsNoticedToo) {
  const test::TempDir folder;
  const fs::path run = folder / "run";
  const std::string error = error_of(alone(), {.run_dir = run, .harm = [&] {
                                                 fs::rename(run, folder / "moved");
                                                 fs::create_directories(run / "checkpoints");
                                               }});
  EXPECT_THAT(error, HasSubstr("was replaced"));
  EXPECT_TRUE(ends_the_job(error));
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
  const std::string error = error_of(
      alone(), {.run_dir = run, .rescue = folder / "rescue", .harm = [&] { replace_checkpoints_by_a_file(run); }});
  EXPECT_THAT(error, HasSubstr("rescue/checkpoints/step-0000000"));
  EXPECT_TRUE(ends_the_job(error)) << "a restart would not use what was saved";
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

/// A run that goes to its second stage after three epochs of 3 steps; `harm` is done at the end of the third.
std::string staged_error_of(const fs::path& run, const fs::path& rescue, const std::function<void()>& harm) {
  NoisyTask task;
  TrainConfig config = noisy_config();
  config.max_steps = 0;
  config.epochs = 6;
  config.schedule.type = "constant";
  config.stages.stop_epoch = 3;
  TrainerOptions options{.recipe = "noisy", .run_dir = run, .rescue = rescue};
  options.sinks.push_back(run_callbacks({.on_epoch = [&harm](const EpochResult& epoch) {
    if (epoch.epoch == 2) harm();
  }}));
  return test::fault_of<IoError>([&] { (void)Trainer(alone(), task, config, options).fit(); });
}

TEST(LostRunFolder, BeforeTheSecondStageTheRunIsSavedInTheRescue) {
  const test::TempDir folder;
  const fs::path run = folder / "run";
  EXPECT_THAT(staged_error_of(run, folder / "rescue", [&] { remove_run(run); }),
              HasSubstr("rescue/checkpoints/step-00000009"));
}

TEST(LostRunFolder, ASaveThatFailsBeforeTheSecondStageIsMadeInTheRescue) {
  const test::TempDir folder;
  const fs::path run = folder / "run";
  EXPECT_THAT(staged_error_of(run, folder / "rescue", [&] { replace_checkpoints_by_a_file(run); }),
              HasSubstr("rescue/checkpoints/step-00000009"));
}

TEST(Rescue, InsideTheRunFolderIsRefused) {
  const test::TempDir folder;
  EXPECT_THROW((void)train(alone(), {.run_dir = folder / "run", .rescue = folder / "run/rescue"}), UsageError);
}

}  // namespace rescue_test
}  // namespace lockstep
