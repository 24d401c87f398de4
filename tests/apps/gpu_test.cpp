// SPDX-License-Identifier: Apache-2.0
// The programs on a real GPU.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "apps/command.h"
#include "lockstep/data/contact_sheet.h"
#include "support/ranks_on_one_gpu.h"
#include "support/temp_dir.h"

namespace lockstep::test {
namespace gpu_test {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::RanksOnOneGpu;
using Words = std::vector<std::string>;

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Captchas of four digits as bars of different heights: the GPU machine may have no fonts.
void draw_digits(const std::filesystem::path& folder, int count) {
  std::filesystem::create_directories(folder);
  for (int i = 0; i < count; ++i) {
    const std::string label = fmt::format("{:04}", i * 7919 % 10'000);
    Image image{.size = {160, 60}, .channels = 1, .pixels = std::vector<std::uint8_t>(160 * 60, 255)};
    for (std::size_t place = 0; place < label.size(); ++place) {
      const int height = 5 * (label[place] - '0' + 1);
      for (int y = 60 - height; y < 60; ++y) {
        std::fill_n(image.pixels.begin() + y * 160 + static_cast<int>(place) * 40 + 8, 24, std::uint8_t{0});
      }
    }
    write_png(image, folder / fmt::format("{}_{}.png", label, i));
  }
}

/// The mean loss of each epoch, from the run's log.
std::vector<double> epoch_losses(const std::filesystem::path& run) {
  constexpr std::string_view kKey = "\"loss\": ";
  std::vector<double> losses;
  std::ifstream log(run / "log.jsonl");
  for (std::string line; std::getline(log, line);) {
    const std::size_t at = line.find(kKey);
    if (line.find("\"event\": \"epoch\"") != std::string::npos && at != std::string::npos) {
      losses.push_back(std::stod(line.substr(at + kKey.size())));
    }
  }
  return losses;
}

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

using Variables = std::map<std::string, std::string>;

/// Trains ranks on one GPU; returns their output.
std::string train_ranks(int world, const Variables& variables, const Words& more = {}) {
  const TempDir home;
  draw_digits(home / "digits", 320);
  const Words words = joined(train_words("digits", "run"),
                             {"--device", "cuda", "--nproc-per-node", std::to_string(world), "--set", "batch_size=16"});
  ProcessOptions options = lockstep_command(joined(words, more), home.path());
  options.environment.insert(options.environment.end(), variables.begin(), variables.end());
  const ProcessResult run = run_process(options, kTrainingPatience);
  EXPECT_EQ(run.code, 0) << run.err << run.out;
  return run.out + run.err;
}

TEST(CommandOnAGpu, TwoRanksThatShareItTrainAndSayHowTheirGradientsTravel) {
  LOCKSTEP_NEEDS_GPU();
  EXPECT_THAT(train_ranks(2, {{"LOCKSTEP_SHARE_GPUS", "1"}}), HasSubstr("share a GPU"));
}

TEST_P(RanksOnOneGpu, TwoTrainCaptcha) {
  LOCKSTEP_NEEDS_RANKS_ON_ONE_GPU();
  EXPECT_THAT(train_ranks(2, testing::shared_gpu(GetParam())), HasSubstr("nccl"));
}

TEST_P(RanksOnOneGpu, FourTrainCaptcha) {
  LOCKSTEP_NEEDS_RANKS_ON_ONE_GPU();
  EXPECT_THAT(train_ranks(4, testing::shared_gpu(GetParam())), HasSubstr("nccl"));
}

/// The run fails if graphs cannot be recorded.
TEST_P(RanksOnOneGpu, TwoTrainCaptchaByRecordedSteps) {
  LOCKSTEP_NEEDS_RANKS_ON_ONE_GPU();
  const Words recorded{"--set", "cuda_graph=true", "--set", "epochs=4"};
  EXPECT_THAT(train_ranks(2, testing::shared_gpu(GetParam()), recorded), HasSubstr("nccl"));
}

LOCKSTEP_RANKS_ON_ONE_GPU();

// Every recipe on a real GPU: it trains there, and its weights mean the same on GPU and CPU.

/// The lines "name   value" of `lockstep eval`.
std::map<std::string, double> printed_metrics(const std::string& text) {
  std::map<std::string, double> metrics;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    double value = 0;
    std::string more;
    if (line.starts_with(' ') || !(words >> name >> value) || words >> more) continue;
    metrics[name] = value;
  }
  return metrics;
}

struct RecipeCase {
  const char* name;   ///< the recipe, with its preset
  const char* train;  ///< data to train on; null for the preset's own
  const char* data;   ///< to evaluate on
  double tolerance;   ///< tolerance for each metric, because different rounding may decide a near tie the other way
};

class RecipeOnAGpu : public ::testing::TestWithParam<RecipeCase> {};

TEST_P(RecipeOnAGpu, TrainsThereAndItsWeightsMeanTheSameOnTheCpu) {
  LOCKSTEP_NEEDS_GPU();
  const RecipeCase& one = GetParam();
  const TempDir home;
  Words train{"train", one.name, "--run-dir", "run", "--device", "cuda"};
  if (one.train != nullptr) train.insert(train.end(), {"--set", "data.train=" + std::string(one.train)});
  const ProcessResult trained = lockstep(train, home.path());
  ASSERT_EQ(trained.code, 0) << trained.err << trained.out;
  const std::vector<double> losses = epoch_losses(home / "run");
  ASSERT_GE(losses.size(), 3U) << trained.out;
  EXPECT_LT(losses.back(), losses.front()) << trained.out;
  const std::string recipe = std::string(one.name).substr(0, std::string(one.name).find(':'));
  std::vector<std::map<std::string, double>> found;
  for (const char* device : {"cpu", "cuda"}) {
    const ProcessResult judged =
        lockstep({"eval", recipe, "--checkpoint", "run", "--data", one.data, "--device", device, "--set", "amp=none"},
                 home.path());
    ASSERT_EQ(judged.code, 0) << device << ": " << judged.err;
    found.push_back(printed_metrics(judged.out));
  }
  ASSERT_FALSE(found[0].empty());
  ASSERT_EQ(found[0].size(), found[1].size());
  for (const auto& [name, value] : found[0]) {
    EXPECT_NEAR(found[1][name], value, one.tolerance * std::max(1.0, std::abs(value))) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Each, RecipeOnAGpu,
                         ::testing::Values(RecipeCase{"detection:smoke", "scenes:320:1:few", "scenes:60:2:few", 0.02},
                                           RecipeCase{"segmentation:smoke", nullptr, "scenes:24:2:few", 0.005},
                                           RecipeCase{"captioning:smoke", nullptr, "scenes:60:2", 0.02}),
                         [](const auto& test) {
                           const std::string name = test.param.name;
                           return name.substr(0, name.find(':'));
                         });

}  // namespace gpu_test
}  // namespace lockstep::test
