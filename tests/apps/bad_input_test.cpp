// SPDX-License-Identifier: Apache-2.0
// Bad input, on the command line and on disk: one clear error that names the thing, the right exit code, no hang.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "apps/command.h"
#include "lockstep/base/file_system.h"
#include "support/temp_dir.h"

namespace lockstep::test {
namespace bad_input_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

class BadInput : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(generate_digits(folder_ / "train", 8, 1).code, 0); }

  ProcessResult train(std::vector<std::string> more) {
    auto words = train_words(folder_ / "train", folder_ / "run");
    words.insert(words.end(), more.begin(), more.end());
    return lockstep(words);
  }

  std::filesystem::path an_image() { return folder_ / "train" / FileSystem::system().list(folder_ / "train").front(); }

  TempDir folder_;
};

TEST_F(BadInput, ATruncatedImageIsNamedOnOneRankAndOnTwo) {
  const auto image = an_image();
  std::filesystem::resize_file(image, std::filesystem::file_size(image) / 2);
  for (const char* processes : {"1", "2"}) {
    const ProcessResult result = train({"--nproc-per-node", processes, "--run-dir", (folder_ / processes).string()});
    EXPECT_EQ(result.code, 65) << result.err;
    EXPECT_FALSE(result.timed_out);
    EXPECT_THAT(result.err, HasSubstr(image.filename().string()));
  }
}

TEST_F(BadInput, AnEvaluationSkipsAnUnreadableImageIfBadSamplesIsSkip) {
  ASSERT_EQ(train({}).code, 0);
  const auto image = an_image();
  std::filesystem::resize_file(image, std::filesystem::file_size(image) / 2);
  const std::string run = (folder_ / "run").string();
  std::vector<std::string> eval = {"eval", "captcha", "--checkpoint", run, "--data", (folder_ / "train").string()};
  EXPECT_EQ(lockstep(eval).code, 65);
  eval.insert(eval.end(), {"--set", "bad_samples=skip", "--json"});
  const ProcessResult skipped = lockstep(eval);
  EXPECT_EQ(skipped.code, 0) << skipped.err;
  EXPECT_THAT(skipped.out, HasSubstr("\"samples\": 8, \"skipped\": 1,"));
  EXPECT_THAT(skipped.err, HasSubstr("bad sample skipped: "));
  const ProcessResult only = train(
      {"--test-only", "-r", run, "--set", "data.test=" + (folder_ / "train").string(), "--set", "bad_samples=skip"});
  EXPECT_EQ(only.code, 0) << only.err;
  EXPECT_THAT(only.out, HasSubstr("1 unreadable sample\n"));
}

TEST_F(BadInput, APredictionGoesOnAfterAnUnreadableFileAndFailsAtTheEnd) {
  ASSERT_EQ(train({}).code, 0);
  const auto image = an_image();
  std::filesystem::resize_file(image, std::filesystem::file_size(image) / 2);
  const ProcessResult all = lockstep({"predict", "captcha", "--checkpoint", (folder_ / "run").string(),
                                      (folder_ / "missing.png").string(), (folder_ / "train").string()});
  EXPECT_EQ(all.code, 65) << all.err;
  EXPECT_EQ(std::ranges::count(all.out, '\n'), 7) << all.out;
  EXPECT_THAT(all.err, AllOf(HasSubstr("missing.png does not exist"), HasSubstr(image.filename().string()),
                             HasSubstr("error: 2 of 9 files could not be read\n")));
  const ProcessResult one =
      lockstep({"predict", "captcha", "--checkpoint", (folder_ / "run").string(), image.string()});
  EXPECT_EQ(one.code, 65);
  EXPECT_THAT(one.err, ::testing::StartsWith("error: cannot read image "));
}

TEST_F(BadInput, ALabelOutsideTheCharsetNamesFileAndCharacter) {
  const auto image = an_image();
  std::filesystem::rename(image, image.parent_path() / "12x4_0.png");
  const ProcessResult result = train({});
  EXPECT_EQ(result.code, 65);
  EXPECT_THAT(result.err, HasSubstr("12x4_0.png: 'x' of its label '12x4' is not in the charset 0-9"));
}

TEST_F(BadInput, AMissingAndAnEmptyFolderAreNamed) {
  FileSystem::system().make_folder(folder_ / "empty");
  for (const char* name : {"missing", "empty"}) {
    const ProcessResult result = train({"--set", "data.train=" + (folder_ / name).string()});
    EXPECT_EQ(result.code, 65) << result.err;
    EXPECT_THAT(result.err, HasSubstr((folder_ / name).string()));
  }
}

TEST_F(BadInput, AnUnknownKeySuggestsTheNearestAndIsSaidOnce) {
  const ProcessResult result = train({"--nproc-per-node", "2", "--set", "batchsize=3"});
  EXPECT_EQ(result.code, 64);
  EXPECT_THAT(result.err, HasSubstr("--set: unknown key 'batchsize' (did you mean 'batch_size'?)"));
}

TEST_F(BadInput, AWrongTypeNamesFileAndLine) {
  std::ofstream(folder_ / "settings.yml") << "recipe: captcha\nepochs: many\n";
  const ProcessResult result = lockstep({"train", (folder_ / "settings.yml").string()}, folder_.path());
  EXPECT_EQ(result.code, 64);
  EXPECT_THAT(result.err, HasSubstr("settings.yml:2: epochs is 'many', not an integer"));
}

TEST_F(BadInput, AnUnknownRecipePresetVerbOrOptionSuggestsTheNearest) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"train", "captha"}, "did you mean 'captcha'"},
      {{"train", "captcha:digit"}, "did you mean 'digits'"},
      {{"trian", "captcha"}, "did you mean 'train'"},
      {{"train", "captcha", "--rundir", "x"}, "did you mean '--run-dir'"},
      {{"eval", "captcha", "--chekpoint", "x"}, "did you mean '--checkpoint'"}};
  for (const auto& [words, expected] : cases) {
    const ProcessResult result = lockstep(words, folder_.path());
    EXPECT_EQ(result.code, 64) << result.err;
    EXPECT_THAT(result.err, HasSubstr(expected));
  }
}

TEST_F(BadInput, AnErrorHasNoHeadingAboveIt) {
  const std::string missing = "data.train=" + (folder_ / "missing").string();
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"train", "captcha:digits", "--epoch", "3"},
           {"train", "captcha:digits", "--set", "epoch=3"},
           {"train", "captcha:digits", "--set", missing},
           {"train", "captcha:digits", "--resume", "auto", "--epoch", "3"},
           {"train", "captcha:digits", "--nproc-per-node", "2", "--epoch", "3"},
           {"tune", "captcha:conv3", "--nproc-per-node", "2", "--set", missing},
           {"eval", "captcha", "--nproc-per-node", "2", "--foo"},
           {"bench", "all-reduce", "--nproc-per-node", "2", "--foo"},
           {"run", "--nproc-per-node", "cpu", "--shutdown-timeout", "-3", "--", "true"},
           {"run", "--nproc-per-node", "cpu", "--monitor-interval", "3", "--rdzv-backend", "etcd", "--", "true"},
           {"run", "--nproc-per-node", "cpu", "--", (folder_ / "missing").string()}}) {
    const ProcessResult result = lockstep(words, folder_.path());
    EXPECT_NE(result.code, 0);
    EXPECT_THAT(result.err, ::testing::StartsWith("error: ")) << ::testing::PrintToString(words);
    EXPECT_EQ(result.err.find("rror: ", 2), std::string::npos) << "it is said once: " << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(BadInput, WhatTheLauncherHasToSayStandsAboveTheFirstStep) {
  const ProcessResult alone = train({"--run-dir", (folder_ / "1").string()});
  EXPECT_THAT(alone.err, HasSubstr("note: training with 1 process, because no GPU is visible"));
  auto words = train_words(folder_ / "train", folder_ / "2");
  words.insert(words.end(), {"--nproc-per-node", "2"});
  auto options = lockstep_command(words);
  options.environment.emplace_back("OMP_NUM_THREADS", "");
  const ProcessResult both = run_process(options, kTrainingPatience);
  EXPECT_THAT(both.err, HasSubstr("note: OMP_NUM_THREADS=1 for each of 2 ranks"));
  EXPECT_EQ(both.err.find("OMP_NUM_THREADS"), both.err.rfind("OMP_NUM_THREADS")) << both.err;
}

TEST_F(BadInput, AMissingCheckpointIsNamed) {
  for (const char* verb : {"eval", "predict"}) {
    std::vector<std::string> words = {verb, "captcha", "--checkpoint", (folder_ / "nowhere").string()};
    if (std::string(verb) == "eval") words.insert(words.end(), {"--data", (folder_ / "train").string()});
    if (std::string(verb) == "predict") words.push_back(an_image().string());
    const ProcessResult result = lockstep(words);
    EXPECT_EQ(result.code, 65) << result.err;
    EXPECT_THAT(result.err, HasSubstr((folder_ / "nowhere").string()));
  }
}

TEST_F(BadInput, ARunFolderInUseIsRefusedAndKeepsWhatItHolds) {
  ASSERT_EQ(train({}).code, 0);
  const std::string summary = FileSystem::system().read(folder_ / "run/summary.json");
  for (const char* processes : {"1", "2"}) {
    const ProcessResult again = train({"--nproc-per-node", processes});
    EXPECT_EQ(again.code, 64);
    EXPECT_THAT(again.err, HasSubstr("holds an earlier run"));
  }
  EXPECT_EQ(FileSystem::system().read(folder_ / "run/summary.json"), summary);
}

TEST_F(BadInput, ARankKilledAtARandomStepEndsTheRunAndIsNamed) {
  const std::string mark = "LOCKSTEP_TEST_MARK=" + folder_.path().filename().string();
  auto words = train_words(folder_ / "train", folder_ / "run");
  words.insert(words.end(), {"--nproc-per-node", "2", "--max-restarts", "0", "--set", "epochs=100000"});
  ProcessOptions options = lockstep_command(words);
  options.environment.emplace_back("LOCKSTEP_TEST_MARK", folder_.path().filename().string());
  Process run(options);
  const auto step = std::random_device{}() % 10 + 1;
  const std::string line = "\"step\": " + std::to_string(step) + ",";
  ASSERT_TRUE(eventually([&] {
    return FileSystem::system().exists(folder_ / "run/log.jsonl") &&
           FileSystem::system().read(folder_ / "run/log.jsonl").find(line) != std::string::npos;
  })) << "step "
      << step << " never came";
  const pid_t victim = [&] {
    for (const pid_t pid : processes_with("RANK=1")) {
      const auto marked = processes_with(mark);
      if (std::find(marked.begin(), marked.end(), pid) == marked.end()) continue;
      const std::string words_of = FileSystem::system().read("/proc/" + std::to_string(pid) + "/cmdline");
      if (words_of.find("lockstep-worker") < words_of.find('\0')) return pid;
    }
    return pid_t{-1};
  }();
  ASSERT_GT(victim, 0);
  ::kill(victim, SIGKILL);
  const ProcessResult result = run.wait();
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.code, 128 + SIGKILL) << result.err;
  EXPECT_THAT(result.err, HasSubstr("rank 1"));
  EXPECT_THAT(result.err, HasSubstr("SIGKILL"));
  EXPECT_TRUE(eventually([&] { return processes_with(mark).empty(); })) << "a process is left";
}

}  // namespace bad_input_test
}  // namespace lockstep::test
