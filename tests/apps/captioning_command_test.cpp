// SPDX-License-Identifier: Apache-2.0
// Captioning from the command line: an experiment folder in the original's format, synthetic scenes, scores and images.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "apps/command.h"
#include "support/temp_dir.h"

namespace lockstep::test {
namespace captioning_command_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// The original's sections and this program's own keys; two stages of one epoch each.
constexpr const char* kExperiment = R"(LOGGER_NAME: 'Small'
SEED: 7
TRAIN:
  BATCH_SIZE: 4
  REINFORCEMENT:
    START: 1
DATA_LOADER:
  NUM_WORKERS: 1
  SEQ_PER_IMG: 3
MODEL:
  TYPE: 'XLAN'
  SEQ_LEN: 13
  BILINEAR: {DIM: 32, ENCODE_LAYERS: 1, DECODE_LAYERS: 1, HEAD: 4}
  RNN_SIZE: 32
SOLVER:
  BASE_LR: 0.001
  MAX_EPOCH: 2
  DISPLAY: 1
  LR_POLICY:
    TYPE: 'Fix'
LOSSES:
  XE_TYPE: 'LabelSmoothing'
  LABELSMOOTHING: 0.1
INFERENCE:
  BEAM_SIZE: 2
data:
  train: data/scenes
  test: scenes:6:9
  height: 48
  width: 48
model:
  width: 8
)";

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

std::string read(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

void generate(const TempDir& home) {
  const ProcessResult made = lockstep(
      {"generate", "captioning", "--out", "data/scenes", "--count", "12", "--seed", "1", "--size", "48"}, home.path());
  ASSERT_EQ(made.code, 0) << made.err;
}

TEST(CaptioningCommand, WithoutAFolderItSaysWhatToDoAndExitsWith64) {
  const TempDir home;
  const ProcessResult run = lockstep({"train", "captioning"}, home.path());
  EXPECT_EQ(run.code, 64);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, AllOf(HasSubstr("--folder FOLDER"), HasSubstr("Example:"), HasSubstr("config.yml")));
  EXPECT_TRUE(fs::is_empty(home.path()));
}

TEST(CaptioningCommand, AnExperimentsSettingsAreInspectedAsTheyAreTrained) {
  const TempDir home;
  write(home / "experiments/small/config.yml", kExperiment);
  const ProcessResult shown =
      lockstep({"inspect", "config", "captioning", "--folder", "experiments/small", "--epochs", "7"}, home.path());
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(ContainsRegex("eval.beam_size +2 +experiments/small/config.yml:"),
                               ContainsRegex("epochs +7 +--set")));
  const ProcessResult wrong = lockstep({"inspect", "config", "captioning", "--foldr", "x"}, home.path());
  EXPECT_EQ(wrong.code, 64);
  EXPECT_THAT(wrong.err, HasSubstr("lockstep inspect config: unknown option '--foldr' (did you mean '--folder'?)"));
}

TEST(CaptioningCommand, OnSeveralRanksItSaysSoOnceAndIsNotStartedAgain) {
  const TempDir home;
  const ProcessResult run = lockstep({"train", "captioning", "--nproc-per-node", "2"}, home.path());
  EXPECT_EQ(run.code, 64);
  const std::size_t first = run.err.find("Presets: smoke");
  ASSERT_NE(first, std::string::npos) << run.err;
  EXPECT_EQ(run.err.find("Presets: smoke", first + 1), std::string::npos) << run.err;
  EXPECT_THAT(run.err, Not(HasSubstr("restart 1")));
}

TEST(CaptioningCommand, AnExperimentsFolderHoldsTheRunWithItsSnapshotsAndResults) {
  const TempDir home;
  generate(home);
  write(home / "experiments/small/config.yml", kExperiment);
  const std::vector<std::string> words = {
      "train", "captioning", "--set", "folder=experiments/small", "--nproc-per-node", "2"};
  const ProcessResult run = lockstep(words, home.path());
  ASSERT_EQ(run.code, 0) << run.err << run.out;
  EXPECT_THAT(run.out, AllOf(HasSubstr("x_linear"), HasSubstr("cider_d"), HasSubstr("experiments/small"),
                             HasSubstr("refresh weights at epoch 1")));
  const std::size_t note = run.err.find("this setting has no effect here: LOGGER_NAME");
  ASSERT_NE(note, std::string::npos);
  EXPECT_EQ(run.err.find("this setting has no effect here: LOGGER_NAME", note + 1), std::string::npos)
      << "two ranks, one note";
  const fs::path folder = home / "experiments/small";
  EXPECT_EQ(read(folder / "config.yml"), kExperiment) << "the user's own file is as it was";
  EXPECT_THAT(read(folder / "config.resolved.yml"), HasSubstr("beam_size: 2"));
  EXPECT_TRUE(fs::exists(folder / "snapshot/best"));
  EXPECT_THAT(read(folder / "result/result_val_2.json"), AllOf(HasSubstr("\"image_id\""), HasSubstr("\"caption\"")));
  EXPECT_TRUE(fs::exists(folder / "pictures/captions.png"));

  const ProcessResult again = lockstep(words, home.path());
  EXPECT_EQ(again.code, 64) << "a run is not written over";
  EXPECT_THAT(again.err, HasSubstr("--resume"));

  std::vector<std::string> onward = words;
  onward[3] = "folder=" + folder.string() + "/";
  onward.insert(onward.end(), {"--resume", "auto"});
  const ProcessResult resumed = lockstep(onward, home.path());
  EXPECT_EQ(resumed.code, 0) << "the same folder in other words: " << resumed.err;
  const ProcessResult plain =
      lockstep({"train", "captioning:smoke", "--run-dir", "experiments/small", "--resume", "auto"}, home.path());
  EXPECT_EQ(plain.code, 64);
  EXPECT_THAT(plain.err, HasSubstr("--folder"));

  const ProcessResult judged =
      lockstep({"eval", "captioning", "--checkpoint", "experiments/small", "--data", "scenes:5:3"}, home.path());
  EXPECT_EQ(judged.code, 0) << judged.err;
  EXPECT_THAT(judged.out, AllOf(HasSubstr("CIDEr-D"), HasSubstr("BLEU-1..4")));

  const std::string picture = "data/scenes/images/000003.png";
  const ProcessResult said = lockstep(
      {"predict", "captioning", "--checkpoint", "experiments/small", "--pictures", "said", picture}, home.path());
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr(picture));
  EXPECT_TRUE(fs::exists(home / "said/000003.png"));
}

TEST(CaptioningCommand, TheTestSetIsEvaluatedWithTheBestWeightsAfterTheTraining) {
  const TempDir home;
  generate(home);
  write(home / "x/config.yml",
        std::string(kExperiment)
            .replace(std::string(kExperiment).find("  BEAM_SIZE"), 0, "  TEST_ANNFILE: 'scenes:4:11'\n"));
  const ProcessResult run = lockstep({"train", "captioning", "--folder", "x", "--nproc-per-node", "2"}, home.path());
  ASSERT_EQ(run.code, 0) << run.err << run.out;
  EXPECT_THAT(run.out, HasSubstr("scenes:4:11 (4 samples"));
  EXPECT_LT(run.out.find("done"), run.out.find("scenes:4:11 (4 samples"));
  std::vector<std::string> results;
  for (const auto& file : fs::directory_iterator(home / "x/result")) results.push_back(file.path().filename().string());
  EXPECT_THAT(results, ::testing::Contains("metrics_test.json"));
  EXPECT_THAT(results, ::testing::Contains(::testing::AnyOf("result_test_1.json", "result_test_2.json")));
  const ProcessResult missing =
      lockstep({"train", "captioning", "--folder", "x", "--run-dir", "runs/b", "--set", "data.final_test=nowhere.json"},
               home.path());
  EXPECT_EQ(missing.code, 65) << "before the training, not after it";
  EXPECT_THAT(missing.err, HasSubstr("nowhere.json"));
  EXPECT_THAT(missing.out, Not(HasSubstr("cider_d")));
}

/// Each replica reads its own samples in the final test too: replica 0 reads 0 and 2 before replica 1 reads 1 and 3.
TEST(CaptioningCommand, TheFinalTestHasThePartsOfTheReplicasOnOneProcess) {
  const TempDir home;
  generate(home);
  const ProcessResult made = lockstep(
      {"generate", "captioning", "--out", "data/final", "--count", "4", "--seed", "2", "--size", "48"}, home.path());
  ASSERT_EQ(made.code, 0) << made.err;
  for (const char* image : {"data/final/images/000001.png", "data/final/images/000002.png"}) {
    fs::resize_file(home / image, fs::file_size(home / image) / 2);
  }
  write(home / "x/config.yml",
        std::string(kExperiment)
            .replace(std::string(kExperiment).find("  BEAM_SIZE"), 0, "  TEST_ANNFILE: 'data/final'\n"));
  const ProcessResult run = lockstep({"train", "captioning", "--folder", "x", "--nproc-per-node", "1", "--set",
                                      "replicas=2", "--set", "bad_samples=skip"},
                                     home.path());
  ASSERT_EQ(run.code, 0) << run.err << run.out;
  const std::size_t first = run.err.find("bad sample skipped: sample 2:");
  const std::size_t second = run.err.find("bad sample skipped: sample 1:");
  ASSERT_NE(second, std::string::npos) << run.err;
  EXPECT_LT(first, second);
}

TEST(CaptioningCommand, AnotherRunDirIsUsedAndTheExperimentsFolderStaysAsItIs) {
  const TempDir home;
  generate(home);
  write(home / "experiments/small/config.yml", kExperiment);
  const ProcessResult run =
      lockstep({"train", "captioning", "--folder", "experiments/small", "--run-dir", "runs/a", "--set", "max_steps=1"},
               home.path());
  ASSERT_EQ(run.code, 0) << run.err << run.out;
  EXPECT_TRUE(fs::exists(home / "runs/a/config.yml"));
  EXPECT_EQ(std::distance(fs::directory_iterator(home / "experiments/small"), {}), 1);
}

/// There are no features in .npz files here, and a network with its own backbone cannot be the original's.
TEST(CaptioningCommand, ResumeWithANumberBeginsWithTheOriginsSnapshot) {
  const TempDir home;
  generate(home);
  write(home / "x/config.yml", kExperiment);
  write(home / "x/snapshot/caption_model_27.pth", "no weights");
  const ProcessResult run =
      lockstep({"train", "captioning", "--folder", "x", "--resume", "27", "--nproc-per-node", "2"}, home.path());
  EXPECT_EQ(run.code, 65);
  EXPECT_THAT(run.err, AllOf(HasSubstr("--resume 27: x/snapshot/caption_model_27.pth has only weights"),
                             HasSubstr("caption_model_27.pth")));
  const ProcessResult missing = lockstep({"train", "captioning", "--folder", "x", "--resume", "28"}, home.path());
  EXPECT_EQ(missing.code, 65);
  EXPECT_THAT(missing.err, HasSubstr("--resume 28: there is no such checkpoint"));
}

TEST(CaptioningCommand, WhatIsWrongInAnExperimentIsNamedWithFileAndLine) {
  const TempDir home;
  write(home / "x/config.yml", "TRAIN:\n  BATCHSIZE: 10\n");
  const ProcessResult unknown = lockstep({"train", "captioning", "--folder", "x"}, home.path());
  EXPECT_EQ(unknown.code, 64);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("x/config.yml:2"), HasSubstr("did you mean 'TRAIN.BATCH_SIZE'")));
  write(home / "x/config.yml", "SOLVER:\n  MAX_EPOCH: many\n");
  const ProcessResult wrong = lockstep({"train", "captioning", "--folder", "x"}, home.path());
  EXPECT_EQ(wrong.code, 64);
  EXPECT_THAT(wrong.err, HasSubstr("x/config.yml:2: SOLVER.MAX_EPOCH is 'many'"));
  const ProcessResult missing = lockstep({"train", "captioning", "--folder", "y"}, home.path());
  EXPECT_THAT(missing.code, ::testing::AnyOf(64, 65));
  EXPECT_THAT(missing.err, HasSubstr("y/config.yml"));
  EXPECT_FALSE(fs::exists(home / "y")) << "a mistyped folder is not made";
  write(home / "f.yml", "recipe: captioning\nfolder: x\n");
  const ProcessResult written = lockstep({"train", "f.yml"}, home.path());
  EXPECT_EQ(written.code, 64);
  EXPECT_THAT(written.err, HasSubstr("f.yml:2"));
}

TEST(CaptioningCommand, WeightsOfARunWithOtherWordsAreAnErrorThatNamesAWord) {
  const TempDir home;
  const std::vector<std::string> first = {"train", "captioning:smoke", "--run-dir", "first", "--set", "max_steps=2"};
  ASSERT_EQ(lockstep(first, home.path()).code, 0);
  write(home / "words.txt", "zebra\nred\ncircle\nUNK\n");
  const ProcessResult other = lockstep({"train", "captioning:smoke", "--run-dir", "second", "--init-from", "first",
                                        "--set", "data.vocabulary=words.txt"},
                                       home.path());
  EXPECT_EQ(other.code, 65);
  EXPECT_THAT(other.err, AllOf(HasSubstr("the vocabulary differs from the checkpoint's"), HasSubstr("zebra"),
                               Not(HasSubstr("size mismatch"))));
}

}  // namespace captioning_command_test
}  // namespace lockstep::test
