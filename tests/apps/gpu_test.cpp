// SPDX-License-Identifier: Apache-2.0
// The programs on a real GPU: training in each precision, resuming, ranks that share the GPU, and what is shown of it.
#include <gmock/gmock.h>

#include "apps/gpu_runs.h"

namespace lockstep::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CaptchaOnAGpu : public ::testing::TestWithParam<Words> {};

TEST_P(CaptchaOnAGpu, LearnsSavesAndGoesOn) {
  LOCKSTEP_NEEDS_GPU();
  const TempDir home;
  draw_digits(home / "digits", 640);
  const Words words =
      joined({"train", "captcha:conv3", "--run-dir", "run", "--device", "cuda", "--set", "data.train=digits", "--set",
              "data.charset=0-9", "--set", "schedule.type=constant", "--set", "batch_size=32", "--set", "workers=2"},
             GetParam());
  const ProcessResult first = lockstep(joined(words, {"--set", "epochs=2"}), home.path());
  ASSERT_EQ(first.code, 0) << first.err << first.out;
  EXPECT_THAT(first.err, Not(HasSubstr("warning")));
  const ProcessResult second = lockstep(joined(words, {"--set", "epochs=4", "--resume", "auto"}), home.path());
  ASSERT_EQ(second.code, 0) << second.err << second.out;
  const std::vector<double> losses = epoch_losses(home / "run");
  ASSERT_EQ(losses.size(), 4U) << second.out;
  EXPECT_LT(losses[1], losses[0]);
  EXPECT_LT(losses[3], losses[1]) << "the second run goes on where the first one ended";
}

INSTANTIATE_TEST_SUITE_P(With, CaptchaOnAGpu,
                         ::testing::Values(Words{}, Words{"--set", "amp=bf16"}, Words{"--set", "amp=fp16"},
                                           Words{"--set", "amp=bf16", "--set", "cuda_graph=true"},
                                           Words{"--set", "tf32=true", "--set", "pin_memory=false"}));

TEST(CommandOnAGpu, InspectGpuNamesItWithItsMemory) {
  LOCKSTEP_NEEDS_GPU();
  const ProcessResult seen = lockstep({"inspect", "gpu"});
  ASSERT_EQ(seen.code, 0) << seen.err;
  EXPECT_THAT(seen.out, HasSubstr("NVIDIA"));
  EXPECT_THAT(seen.out, HasSubstr(" GB"));
}

/// Two ranks on one GPU; what they printed.
std::string train_two_ranks(const std::string& sharing) {
  const TempDir home;
  draw_digits(home / "digits", 320);
  ProcessOptions options = lockstep_command(
      joined(train_words("digits", "run"), {"--device", "cuda", "--nproc-per-node", "2", "--set", "batch_size=16"}),
      home.path());
  options.environment.emplace_back("LOCKSTEP_SHARE_GPUS", sharing);
  const ProcessResult run = run_process(options, std::chrono::seconds(240));
  EXPECT_EQ(run.code, 0) << run.err << run.out;
  return run.out + run.err;
}

TEST(CommandOnAGpu, TwoRanksThatShareItTrainAndSayHowTheirGradientsTravel) {
  LOCKSTEP_NEEDS_GPU();
  EXPECT_THAT(train_two_ranks("1"), HasSubstr("share a GPU"));
}

TEST(CommandOnAGpu, TwoNcclRanksOnItTrain) {
  LOCKSTEP_NEEDS_NCCL();
  EXPECT_THAT(train_two_ranks("nccl"), HasSubstr("nccl"));
}

}  // namespace
}  // namespace lockstep::test
