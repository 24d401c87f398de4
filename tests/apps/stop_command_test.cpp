// SPDX-License-Identifier: Apache-2.0
// A training run that is asked to stop, and resuming it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/command.h"
#include "lockstep/base/file_system.h"
#include "support/temp_dir.h"

namespace lockstep::test {
namespace stop_command_test {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class StopCommand : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(generate_digits(folder_ / "train", 32, 1).code, 0); }

  std::vector<std::string> words(const std::vector<std::string>& more, int epochs = 100'000) {
    std::vector<std::string> all = {"train", "captcha:conv3", "--run-dir", "run", "--resume", "auto"};
    for (const std::string& setting :
         {std::string("data.train=train"), std::string("data.charset=0-9"), std::string("batch_size=4"),
          std::string("workers=1"), std::string("log_every_steps=1"), std::string("replicas=2"),
          std::string("schedule.type=none"), "epochs=" + std::to_string(epochs)}) {
      all.insert(all.end(), {"--set", setting});
    }
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  /// Sends signal `number` once the run has logged a step.
  ProcessResult stop_with(int number, const std::vector<std::string>& more,
                          const std::vector<std::pair<std::string, std::string>>& environment = {}) {
    ProcessOptions options = lockstep_command(words(more), folder_.path());
    options.environment.insert(options.environment.end(), environment.begin(), environment.end());
    Process process(options);
    const auto log = folder_ / "run/log.jsonl";
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (
        std::chrono::steady_clock::now() < end &&
        !(FileSystem::system().exists(log) && FileSystem::system().read(log).find("\"step\"") != std::string::npos)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    process.signal(number);
    return process.wait();
  }

  /// The diagnosis of `lockstep doctor`, which the page shows as well.
  std::string diagnosis() { return lockstep({"doctor", "run", "--json"}, folder_.path()).out; }

  bool has_checkpoint() { return lockstep({"checkpoint", "verify", "run"}, folder_.path()).code == 0; }

  TempDir folder_;
};

TEST_F(StopCommand, SigtermToTheLauncherSavesAndEndsWith143) {
  const ProcessResult result = stop_with(SIGTERM, {"--nproc-per-node", "2"});
  EXPECT_EQ(result.code, 143) << result.err;
  EXPECT_THAT(result.out, HasSubstr("stopped by SIGTERM"));
  EXPECT_THAT(result.out, HasSubstr("--run-dir run --resume auto continues from there"));
  EXPECT_THAT(result.err, Not(HasSubstr("error")));
  EXPECT_THAT(result.err, Not(HasSubstr("restart")));
  EXPECT_THAT(diagnosis(), HasSubstr(R"("state": "stopped", "text": "by SIGTERM: the run saved)"));
  EXPECT_TRUE(has_checkpoint());
}

TEST_F(StopCommand, Sigusr1ToTheLauncherReachesTheRanks) {
  const ProcessResult result = stop_with(SIGUSR1, {"--nproc-per-node", "2"});
  EXPECT_EQ(result.code, 143) << result.err;
  EXPECT_THAT(result.out, HasSubstr("stopped by SIGUSR1"));
  EXPECT_THAT(result.err, Not(HasSubstr("error")));
  EXPECT_THAT(result.err, Not(HasSubstr("failed")));
  EXPECT_THAT(diagnosis(), HasSubstr(R"("state": "stopped", "text": "by SIGUSR1: the run saved)"));
  EXPECT_TRUE(has_checkpoint());
}

TEST_F(StopCommand, OneProcessWithoutALauncherDoesTheSame) {
  const ProcessResult result = stop_with(SIGTERM, {});
  EXPECT_EQ(result.code, 143) << result.err;
  EXPECT_TRUE(has_checkpoint());
}

TEST_F(StopCommand, OneProcessHasALauncherIfItsRestartsWereAskedFor) {
  const ProcessResult result = lockstep(words({"--max-restarts", "1", "--max-time", "0.2s"}), folder_.path());
  EXPECT_EQ(result.code, 143) << result.err;
  EXPECT_TRUE(FileSystem::system().exists(folder_ / "run/logs/attempt_0/rank-0")) << "the launcher's";
}

TEST_F(StopCommand, CtrlCSavesSaysHowToGoOnAndEndsWith130) {
  for (const std::vector<std::string>& options : {std::vector<std::string>{"--nproc-per-node", "2"}, {}}) {
    const ProcessResult result = stop_with(SIGINT, options);
    EXPECT_EQ(result.code, 130) << result.err;
    EXPECT_THAT(result.out, HasSubstr("stopped by SIGINT"));
    EXPECT_THAT(result.out, HasSubstr("--run-dir run --resume auto continues from there"));
    EXPECT_THAT(result.err, Not(HasSubstr("error")));
    EXPECT_TRUE(has_checkpoint());
    std::filesystem::remove_all(folder_ / "run");
  }
}

TEST_F(StopCommand, EndsWithZeroOnlyWhereSlurmTookTheJobAgain) {
  std::filesystem::create_directory(folder_ / "bin");
  write_file_atomically(FileSystem::system(), folder_ / "bin/scontrol", "#!/bin/sh\nexit 0\n");
  std::filesystem::permissions(folder_ / "bin/scontrol", std::filesystem::perms::owner_all);
  const std::vector<std::pair<std::string, std::string>> slurm = {
      {"SLURM_JOB_ID", "4711"}, {"PATH", (folder_ / "bin").string() + ":" + std::getenv("PATH")}};
  const ProcessResult result = stop_with(SIGUSR1, {"--nproc-per-node", "2"}, slurm);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("Slurm will restart job 4711"));
  EXPECT_TRUE(has_checkpoint());
}

TEST_F(StopCommand, MaxTimeSavesAndLeavesAndTheRunGoesOn) {
  const ProcessResult first = lockstep(words({"--nproc-per-node", "2", "--max-time", "0.2s"}), folder_.path());
  EXPECT_EQ(first.code, 143) << first.err;
  EXPECT_THAT(first.out, HasSubstr("stopped by --max-time"));
  EXPECT_THAT(first.err, HasSubstr("the ranks stopped on request"));
  EXPECT_THAT(first.err, Not(HasSubstr("failed")));
  EXPECT_THAT(diagnosis(), HasSubstr(R"("state": "stopped", "text": "by --max-time: the run saved)"));
  const ProcessResult second = lockstep(words({"--max-time", "0.2s"}), folder_.path());
  EXPECT_EQ(second.code, 143) << second.err;
  EXPECT_THAT(second.out, HasSubstr("resumed from"));
  const ProcessResult wrong = lockstep(words({"--max-time", "90"}), folder_.path());
  EXPECT_EQ(wrong.code, 64);
  EXPECT_THAT(wrong.err, HasSubstr("--max-time: '90' is not a time"));
}

// `lockstep train --resume` from the command line, up to the choice of the folder. The Trainer's tests check the
// results bit for bit.

class ResumeCommand : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(generate_digits(folder_ / "train", 16, 1).code, 0); }

  // Runs `lockstep train` in the folder, with the options before the recipe name.
  ProcessResult train(const std::vector<std::string>& options, int max_steps) {
    std::vector<std::string> words = {"train"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"captcha:conv3", "--set", "data.train=train", "--set", "data.charset=0-9", "--set",
                               "batch_size=4", "--set", "workers=1", "--set", "log_every_steps=1", "--set",
                               "schedule.type=none", "--set", "max_steps=" + std::to_string(max_steps)});
    return lockstep(words, folder_.path());
  }

  std::vector<std::string> runs() { return FileSystem::system().list(folder_ / "runs"); }

  TempDir folder_;
};

TEST_F(ResumeCommand, AutoBeginsARunAndThenGoesOnWithIt) {
  const ProcessResult first = train({"--resume", "auto"}, 2);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.err,
              HasSubstr("note: --resume auto: there is no run named runs/captcha-<time>; starting a new one in "));
  ASSERT_THAT(runs(), SizeIs(1));
  const ProcessResult second = train({"--resume=auto"}, 3);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(second.err, HasSubstr("note: --resume auto: runs/" + runs()[0] + " is the newest run"));
  ASSERT_THAT(runs(), SizeIs(1));
  const auto checkpoints = folder_ / "runs" / runs()[0] / "checkpoints";
  EXPECT_TRUE(FileSystem::system().exists(checkpoints / "step-00000003"));

  const ProcessResult earlier = train({"--resume", (checkpoints / "step-00000002").string()}, 4);
  EXPECT_EQ(earlier.code, 64);
  EXPECT_THAT(earlier.err, HasSubstr("--run-dir DIR starts a new run from there"));
  const ProcessResult path = train({"--resume", (checkpoints / "step-00000003").string()}, 4);
  ASSERT_EQ(path.code, 0) << path.err;
  EXPECT_THAT(runs(), SizeIs(1));
  EXPECT_TRUE(FileSystem::system().exists(checkpoints / "step-00000004"));
}

TEST_F(ResumeCommand, WhatCannotBeGoneOnWithIsSaidBeforeARankStarts) {
  const ProcessResult url = train({"--nproc-per-node", "2", "--resume", "ftp://example.org/run"}, 1);
  EXPECT_EQ(url.code, 64);
  EXPECT_THAT(url.err, HasSubstr("only http:// and https:// URLs can be fetched"));
  const ProcessResult missing = train({"--nproc-per-node", "2", "--resume", "nowhere"}, 1);
  EXPECT_EQ(missing.code, 65);
  EXPECT_THAT(missing.err, HasSubstr("--resume nowhere: there is no such checkpoint"));
  EXPECT_THAT(missing.err, Not(HasSubstr("rank")));
  EXPECT_FALSE(FileSystem::system().exists(folder_ / "runs"));
}

}  // namespace stop_command_test
}  // namespace lockstep::test
