// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/banner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::view {
namespace banner_test {

using ::testing::HasSubstr;
using ::testing::Not;

BannerInfo captcha() {
  BannerInfo info;
  info.title = "Lockstep 0.1.0: captcha";
  info.devices = {{"rank 0", "Intel Xeon, 1 of 2 cores"}, {"rank 1", "Intel Xeon, 1 of 2 cores"}};
  info.backend = "shm";
  info.backend_reason = "both ranks are on this host";
  info.batch_per_replica = 512;
  info.replicas = 3;
  info.workers = 12;
  info.train_samples = 50'030;
  info.steps_per_epoch = 33;
  info.epochs = 150;
  info.precision = "bf16 autocast, channels last";
  info.learning_rate = 0.0018;
  info.base_learning_rate = 6e-4;
  info.learning_rate_scaling = "replicas";
  info.schedule = "5 epochs of warm-up, then cosine";
  info.model = "conv7";
  info.parameters = 19'072'400;
  info.run_folder = "runs/captcha-20260101-000000";
  return info;
}

TEST(Banner, TellsEverythingBetweenRules) {
  EXPECT_EQ(banner(captcha()), R"(================================================================================
Lockstep 0.1.0: captcha
================================================================================
devices             rank 0  Intel Xeon, 1 of 2 cores
                    rank 1  Intel Xeon, 1 of 2 cores
backend             shm (both ranks are on this host)
model               conv7, 19,072,400 parameters
batch               512 x 3 replicas = 1,536
loader workers      12 per replica
training samples    50,030
steps per epoch     33
epochs              150
precision           bf16 autocast, channels last
learning rate       0.0018, 0.0006 scaled by replicas
schedule            5 epochs of warm-up, then cosine
run folder          runs/captcha-20260101-000000
================================================================================
)");
}

TEST(Banner, ABatchThatWasFoundSaysSo) {
  BannerInfo info = captcha();
  info.batch_origin = "found by batch_size: auto";
  EXPECT_THAT(banner(info), HasSubstr("512 x 3 replicas = 1,536, found by batch_size: auto\n"));
}

TEST(Banner, CountsAccumulationAndSaysWhatIsUnusual) {
  BannerInfo info = captcha();
  info.devices.pop_back();
  info.replicas = 1;
  info.accumulate_steps = 4;
  info.workers = 0;
  info.max_steps = 2000;
  info.learning_rate_scaling = "none";
  info.resumed_from = "runs/a/checkpoints/step-00001200";
  info.extra = {{"characters", "0-9A-Z, 4 per image"}};
  const std::string text = banner(info);
  EXPECT_THAT(text, HasSubstr("\ndevice              rank 0  Intel"));
  EXPECT_THAT(text, HasSubstr("512 x 1 replica x 4 accumulated = 2,048\n"));
  EXPECT_THAT(text, HasSubstr("loader workers      none (the training thread loads)\n"));
  EXPECT_THAT(text, HasSubstr("150, at most 2,000 steps\n"));
  EXPECT_THAT(text, HasSubstr("learning rate       0.0018, not scaled\n"));
  EXPECT_THAT(text, HasSubstr("characters          0-9A-Z, 4 per image\n"));
  EXPECT_THAT(text, HasSubstr("resumed from        runs/a/checkpoints/step-00001200\n"));
}

TEST(Banner, LeavesOutWhatIsNotKnown) {
  const std::string text = banner({.title = "t"});
  EXPECT_THAT(text, Not(HasSubstr("epochs")));
  EXPECT_THAT(text, Not(HasSubstr("backend")));
  EXPECT_THAT(text, Not(HasSubstr("batch")));
}

TEST(Summary, AlignsItsLabels) {
  EXPECT_EQ(summary("done", {{"a label that is longer", "1"}, {"short", "2"}}),
            std::string(80, '=') + "\ndone\n" + std::string(80, '=') +
                "\na label that is longer  1\nshort                   2\n" + std::string(80, '=') + "\n");
}

TEST(NextCommands, PutsEachOnALineThatCanBeCopied) {
  EXPECT_EQ(next_commands({{"lockstep eval x", "the accuracy"}, {"lockstep predict x", ""}}),
            "next\n  lockstep eval x\n      the accuracy\n  lockstep predict x\n");
  EXPECT_EQ(next_commands({}), "");
}

TEST(CpuInfo, ReadsTheModelNameOfProcCpuinfo) {
  EXPECT_EQ(parse_cpu_name("processor\t: 0\nmodel name\t: Intel(R)  Xeon(R) CPU   @ 2.20GHz  \nmodel name\t: b\n"),
            "Intel(R) Xeon(R) CPU @ 2.20GHz");
  EXPECT_EQ(parse_cpu_name("processor : 0\nBogoMIPS : 50.00\n"), "CPU");
  EXPECT_EQ(parse_cpu_name(""), "CPU");
  EXPECT_GE(cpu_info().cores, 1);
}

}  // namespace banner_test
}  // namespace lockstep::view
