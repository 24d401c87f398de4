// SPDX-License-Identifier: Apache-2.0
// `lockstep train --resume` as a person types it, up to which folder is gone on with. Which bits come out is tested
// beside the Trainer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/command.h"
#include "lockstep/base/file_system.h"
#include "support/temp_dir.h"

namespace lockstep::test {
namespace resume_command_test {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class ResumeCommand : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(generate_digits(folder_ / "train", 16, 1).code, 0); }

  // In the folder, with the options in front: the recipe is found behind them.
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
  EXPECT_THAT(earlier.err, HasSubstr("--run-dir DIR begins a run of its own from there"));
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

}  // namespace resume_command_test
}  // namespace lockstep::test
