// SPDX-License-Identifier: Apache-2.0
// `lockstep explain` and `lockstep bisect` from the command line.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/command.h"
#include "checkpoint/formats/manifest_json.h"
#include "lockstep/base/file_system.h"
#include "support/temp_dir.h"

namespace lockstep::test {
namespace explain_command_test {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

/// Captchas, and runs of 12 steps on them with a checkpoint every 4.
class Explained : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    home_ = new TempDir;
    const ProcessResult made = lockstep({"generate", "captcha", "--out", "data", "--count", "64", "--seed", "1",
                                         "--charset", "0-9", "--length", "2", "--width", "48", "--height", "20"},
                                        home_->path());
    ASSERT_EQ(made.code, 0) << made.err;
    train("two", "2");
  }
  static void TearDownTestSuite() { delete home_; }

  static void train(const std::string& name, const std::string& processes, const Words& more = {}) {
    Words words = {"train", "captcha:conv3", "--nproc-per-node", processes, "--run-dir", name, "--quiet"};
    for (const char* setting :
         {"data.train=data", "data.charset=0-9", "data.length=2", "data.width=48", "data.height=20", "batch_size=4",
          "replicas=2", "max_steps=12", "log_every_steps=1", "checkpoint.every_steps=4", "checkpoint.keep_last=9"}) {
      words.insert(words.end(), {"--set", setting});
    }
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult run = lockstep(words, home_->path());
    ASSERT_EQ(run.code, 0) << run.err;
  }
  static json explained(const Words& more) { return explained("two", more); }
  static json explained(const std::string& run, const Words& more) {
    Words words = {"explain", run, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = lockstep(words, home_->path());
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out, nullptr, false);
  }
  static json bisected(const std::string& other, int code = 1) { return bisected("two", other, code); }
  static json bisected(const std::string& one, const std::string& other, int code) {
    const ProcessResult result = lockstep({"bisect", one, other, "--json"}, home_->path());
    EXPECT_EQ(result.code, code) << result.err << result.out;
    return json::parse(result.out, nullptr, false);
  }
  /// Makes `step` look like a checkpoint from another version of libtorch.
  static void forge_libtorch(const fs::path& step) {
    const fs::path file = step / "manifest.json";
    if (fs::is_symlink(step) || !fs::exists(file)) return;
    const auto manifest = checkpoint::manifest_from_json(FileSystem::system().read(file));
    ASSERT_TRUE(manifest.ok());
    Manifest forged = *manifest;
    forged.libtorch = "0.9.9";
    write_file_atomically(FileSystem::system(), file, checkpoint::manifest_to_json(forged));
  }
  static TempDir* home_;
};
TempDir* Explained::home_ = nullptr;

TEST_F(Explained, AStepsSamplesAreThoseOfTheSampler) {
  // 64 samples for 2 replicas in batches of 4 make 8 steps per epoch, so step 10 is the second of the second epoch.
  const json step = explained({"--step", "10"});
  EXPECT_EQ(step["step"], 10);
  EXPECT_EQ(step["from_step"], 8);
  EXPECT_EQ(step["loss"], step["logged_loss"]) << "the replay has the run's bits";
  std::map<int, std::set<std::int64_t>> samples;
  for (const json& sample : step["samples"]) samples[sample["replica"]].insert(sample["index"].get<std::int64_t>());
  for (int replica = 0; replica < 2; ++replica) {
    const ProcessResult order = lockstep({"inspect", "sampler", "--size", "64", "--replicas", "2", "--rank",
                                          std::to_string(replica), "--seed", "0", "--epoch", "1"});
    const json indices = json::parse(order.out, nullptr, false);
    const std::set<std::int64_t> expected(indices.begin() + 4, indices.begin() + 8);
    EXPECT_EQ(samples[replica], expected) << order.out;
  }
}

TEST_F(Explained, AStepsPicturesAreDrawn) {
  const ProcessResult text = lockstep({"explain", "two", "--step", "3", "--pictures", "worst.png"}, home_->path());
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("step 3 of two, replayed in one process from the beginning"),
                              HasSubstr("yes: loss, gradients and weights"), HasSubstr("gradient norms by layer"),
                              HasSubstr(".png")));
  EXPECT_TRUE(fs::exists(*home_ / "worst.png"));
}

TEST_F(Explained, SamplesAreSkippedFromAResumeOn) {
  const ProcessResult listed =
      lockstep({"explain", "two", "--step", "10", "--limit", "3", "--skip-to", "skip"}, home_->path());
  ASSERT_EQ(listed.code, 0) << listed.err;
  std::ifstream file(*home_ / "skip");
  std::set<std::string> names;
  for (std::string line; std::getline(file, line);) names.insert(line);
  ASSERT_EQ(names.size(), 3U);
  train("skipped", "1",
        {"--resume", "two/checkpoints/step-00000008", "--skip-samples", "skip", "--set", "checkpoint.every_steps=1"});
  for (const int step : {9, 10}) {
    const json found = explained("skipped", {"--step", std::to_string(step)});
    EXPECT_THAT(found["repeats"].get<std::string>(), HasSubstr("yes"));
    EXPECT_EQ(found["samples"].size(), 8U);
    for (const json& sample : found["samples"]) EXPECT_EQ(names.count(sample["sample"]), 0U) << sample;
  }
  // A run that resumes from step 10 with a different number of processes and without the file of samples to skip.
  train("again", "2", {"--resume", "skipped/checkpoints/step-00000010"});
  EXPECT_EQ(bisected("skipped", "again", 0)["steps"], 2);
}

TEST_F(Explained, AnUnknownSampleToSkipIsNamedWithItsLine) {
  std::ofstream(*home_ / "typo") << "data/00_1.png\n";
  const ProcessResult run =
      lockstep({"train", "two/config.yml", "--run-dir", "typo_run", "--skip-samples", "typo"}, home_->path());
  EXPECT_EQ(run.code, 65);
  EXPECT_THAT(run.err, HasSubstr("typo:1: data.train has no sample 'data/00_1.png' (did you mean 'data/"));
}

TEST_F(Explained, ARunFromOtherWeightsIsReplayedFromThem) {
  fs::copy(*home_ / "two", *home_ / "teacher", fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  train("pupil", "2", {"--init-from", "teacher"});
  const json step = explained("pupil", {"--step", "1"});
  EXPECT_EQ(step["from_step"], 0);
  EXPECT_THAT(step["repeats"].get<std::string>(), HasSubstr("yes"));
  // A run that goes on in a different folder still began with these weights.
  train("onward", "1", {"--resume", "pupil/checkpoints/step-00000008"});
  EXPECT_THAT(explained("onward", {"--step", "9"})["repeats"].get<std::string>(), HasSubstr("yes"));
  // The run started from the checkpoint that was the newest at the time.
  fs::remove_all(*home_ / "teacher/checkpoints/step-00000012");
  const ProcessResult gone = lockstep({"explain", "pupil", "--step", "1"}, home_->path());
  EXPECT_EQ(gone.code, 65);
  EXPECT_THAT(gone.err, AllOf(HasSubstr("run pupil started from the weights of"),
                              HasSubstr("teacher/checkpoints/step-00000012, which is gone")));
  EXPECT_THAT(explained("pupil", {"--step", "6"})["repeats"].get<std::string>(), HasSubstr("yes"));
}

TEST_F(Explained, ANewStartFromRandomWeightsForgetsTheEarlierOnes) {
  fs::create_directories(*home_ / "restarted");
  std::ofstream(*home_ / "restarted/first_weights.json") << "{\"path\": \"/nowhere\", \"partial\": false}\n";
  train("restarted", "1", {"--resume", "auto"});
  EXPECT_FALSE(fs::exists(*home_ / "restarted/first_weights.json"));
}

TEST_F(Explained, AWrongStepOrFolderIsOneError) {
  const ProcessResult late = lockstep({"explain", "two", "--step", "99"}, home_->path());
  EXPECT_EQ(late.code, 65);
  EXPECT_THAT(late.err, HasSubstr("has no step 99"));
  EXPECT_THAT(lockstep({"explain", "data", "--step", "1"}, home_->path()).err, HasSubstr("data is not a run folder"));
  EXPECT_EQ(lockstep({"explain", "two"}, home_->path()).code, 64);
}

TEST_F(Explained, RunsOnOtherNumbersOfProcessesAreEqual) {
  train("one", "1");
  EXPECT_EQ(bisected("one", 0)["steps"], 12);
}

TEST_F(Explained, AChangedFileIsFound) {
  fs::copy(*home_ / "data", *home_ / "changed");
  const json step = explained({"--step", "6"});
  const std::string victim = fs::path(step["samples"][0]["sample"].get<std::string>()).filename().string();
  // Replaces the sample's image with another; the steps before step 6 are unchanged.
  const std::string donor = fs::path(step["samples"][1]["sample"].get<std::string>()).filename().string();
  fs::copy_file(*home_ / "data" / donor, *home_ / "changed" / victim, fs::copy_options::overwrite_existing);
  train("changed_run", "1", {"--set", "data.train=changed"});
  const json found = bisected("changed_run");
  EXPECT_EQ(found["step"], 6);
  EXPECT_EQ(found["part"], "samples");
  ASSERT_EQ(found["changed"].size(), 1U) << found;
  EXPECT_THAT(found["changed"][0][0].get<std::string>(), HasSubstr(victim));
  EXPECT_TRUE(found["a_repeats"]);
  EXPECT_TRUE(found["b_repeats"]);
}

TEST_F(Explained, OtherKernelsAreFoundInTheirLayer) {
  train("unfused", "1", {"--set", "fused_layers=false"});
  const json found = bisected("unfused");
  EXPECT_EQ(found["step"], 1);
  EXPECT_EQ(found["part"], "forward");
  EXPECT_EQ(found["layer"], "features.0");
}

/// libtorch chooses its kernels by this variable, so each replay uses the variables of its run.
TEST_F(Explained, VariablesThatChooseKernelsAreNamed) {
  ::setenv("ATEN_CPU_CAPABILITY", "default", 1);
  train("plain", "1");
  const ProcessResult alone = lockstep({"explain", "two", "--step", "10"}, home_->path());
  ::unsetenv("ATEN_CPU_CAPABILITY");
  EXPECT_THAT(alone.err, AllOf(HasSubstr("step-00000008 was written with"), HasSubstr("ATEN_CPU_CAPABILITY=default")));
  const ProcessResult found = lockstep({"bisect", "two", "plain"}, home_->path());
  EXPECT_EQ(found.code, 1) << found.err;
  EXPECT_THAT(found.out, HasSubstr("each matches the digests of its run"));
  EXPECT_THAT(found.out, ::testing::ContainsRegex("kernel variables +none +ATEN_CPU_CAPABILITY=default"));
  EXPECT_THAT(found.out, ::testing::Not(HasSubstr("platform ")));
}

/// A processor that always makes the same error also makes it in a replay; another machine does not.
TEST_F(Explained, AFaultThatLastsIsFoundByRecordsOfTheMachines) {
  ::setenv("LOCKSTEP_FAULT", "flip:gradient:rank=0:step=3:always:bit=25", 1);
  train("faulty", "1");
  const ProcessResult there = lockstep({"explain", "faulty", "--step", "3", "--record", "b.json"}, home_->path());
  ::unsetenv("LOCKSTEP_FAULT");
  ASSERT_EQ(there.code, 0) << there.err;
  ASSERT_EQ(lockstep({"explain", "two", "--step", "3", "--record", "a.json"}, home_->path()).code, 0);
  const json here = bisected("faulty");
  EXPECT_EQ(here["step"], 3);
  EXPECT_EQ(here["part"], "nothing");
  EXPECT_FALSE(here["b_repeats"]) << "this machine computes as it should";
  const ProcessResult compared =
      lockstep({"bisect", "two", "faulty", "--json", "--records", "a.json", "b.json"}, home_->path());
  const json found = json::parse(compared.out, nullptr, false);
  EXPECT_THAT(found["part"].get<std::string>(), ::testing::AnyOf("backward", "gradients")) << compared.err;
  EXPECT_THAT(found["layer"].get<std::string>(), HasSubstr("features.0"));
  EXPECT_TRUE(found["a_repeats"]);
  EXPECT_TRUE(found["b_repeats"]);
  ASSERT_EQ(lockstep({"explain", "two", "--step", "2", "--record", "other.json"}, home_->path()).code, 0);
  const ProcessResult other = lockstep({"bisect", "two", "faulty", "--records", "other.json", "b.json"}, home_->path());
  EXPECT_EQ(other.code, 65);
  EXPECT_THAT(other.err, HasSubstr("other.json is a record of step 2, but the runs first differ at step 3"));
}

TEST_F(Explained, AReplayOnAnotherPlatformSaysSo) {
  train("here", "1", {"--set", "fused_layers=false"});
  for (const auto& step : fs::directory_iterator(*home_ / "here/checkpoints")) forge_libtorch(step.path());
  const json found = bisected("here");
  EXPECT_THAT(found["b_platform"].get<std::string>(), HasSubstr("here ran with libtorch 0.9.9"));
  EXPECT_EQ(found["a_platform"], "");
}

TEST_F(Explained, AnotherLearningRateIsTheUpdates) {
  train("faster", "1", {"--set", "optimizer.lr=0.002"});
  const json found = bisected("faster");
  EXPECT_EQ(found["step"], 1);
  EXPECT_EQ(found["part"], "update");
  EXPECT_THAT(found["b"].get<std::string>(), HasSubstr("learning rate"));
}

}  // namespace explain_command_test
}  // namespace lockstep::test
