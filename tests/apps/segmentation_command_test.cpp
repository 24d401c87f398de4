// SPDX-License-Identifier: Apache-2.0
// Segmentation from the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "apps/command.h"
#include "support/temp_dir.h"

namespace lockstep::test {
namespace segmentation_command_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Options for a small network that trains quickly; its results do not matter.
const std::vector<std::string> kTiny = {"--layers",
                                        "18",
                                        "--batchsize",
                                        "2",
                                        "--epochs",
                                        "1",
                                        "--augment.crop",
                                        "48",
                                        "--numclasses",
                                        "5",
                                        "--class_names",
                                        "[]",
                                        "--workers",
                                        "1",
                                        "--warmup_epoch",
                                        "0",
                                        "--model.output_stride",
                                        "16"};

void generate(const TempDir& home) {
  const ProcessResult made =
      generate_once({"segmentation", "--count", "12", "--seed", "1", "--size", "64"}, home / "VOC2012");
  ASSERT_EQ(made.code, 0) << made.err;
}

ProcessResult run_script(const TempDir& home, const std::string& script) {
  std::vector<std::string> words = {"bash", std::string(LOCKSTEP_TEST_SOURCE_DIR) + "/recipes/segmentation/" + script};
  words.insert(words.end(), kTiny.begin(), kTiny.end());
  words.insert(words.end(), {"--set", "max_steps=2", "--set", "log_every_steps=1"});
  return run_process({.command = words,
                      .environment = {{"LOCKSTEP", lockstep_path()}, {"DATASET_PATH", "VOC2012"}, {"LOGDIR", "log"}},
                      .folder = home.path().string()},
                     kTrainingPatience);
}

class SegmentationScripts : public ::testing::TestWithParam<const char*> {};

TEST_P(SegmentationScripts, StartTwoRanksWithTheDocumentsArguments) {
  const TempDir home;
  generate(home);
  const ProcessResult run = run_script(home, GetParam());
  ASSERT_EQ(run.code, 0) << run.err << run.out;
  EXPECT_THAT(run.out, AllOf(HasSubstr("res18_ASPP_lorm"), HasSubstr("0.002, 0.001 scaled by replicas"),
                             HasSubstr("(segmentation, pseudo, distance_scribble, distance_class, lorm)"),
                             HasSubstr("rank 1"), HasSubstr("miou")));
  EXPECT_THAT(run.err, HasSubstr("l_pesudo is loss.pseudo here"));
  std::ifstream log(fs::directory_iterator(home / "log")->path() / "log.jsonl");
  const std::string lines{std::istreambuf_iterator<char>(log), {}};
  EXPECT_THAT(lines, HasSubstr("\"pseudo\": ")) << "a part of the loss at every step";
  EXPECT_THAT(lines, HasSubstr("\"step\": 2")) << "what is typed behind the script wins, as --set does: " << lines;
  EXPECT_THAT(lines, Not(HasSubstr("\"step\": 3")));
}

INSTANTIATE_TEST_SUITE_P(Both, SegmentationScripts, ::testing::Values("train_torchrun.sh", "train_ddp.sh"));

TEST(SegmentationCommand, TrainsEvaluatesAndDraws) {
  const TempDir home;
  const ProcessResult trained =
      lockstep({"train", "segmentation:smoke", "--run-dir", "run", "--epochs", "1"}, home.path());
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out, AllOf(HasSubstr("mean IoU"), HasSubstr("run/pictures/worst.png")));
  const ProcessResult judged =
      lockstep({"eval", "segmentation", "--checkpoint", "run:best", "--data", "scenes:5:3", "--pictures", "seen",
                "--set", "eval.scales=[0.75, 1]", "--set", "eval.window=64", "--set", "eval.flip=true"},
               home.path());
  EXPECT_EQ(judged.code, 0) << judged.err;
  EXPECT_THAT(judged.out, AllOf(HasSubstr("miou"), HasSubstr("pixel accuracy")));
  EXPECT_TRUE(fs::exists(home / "seen/worst.png"));
  generate(home);
  const fs::path picture = *fs::directory_iterator(home / "VOC2012/JPEGImages");
  const ProcessResult looked = lockstep(
      {"predict", "segmentation", "--checkpoint", "run", "--pictures", "found", picture.string()}, home.path());
  EXPECT_EQ(looked.code, 0) << looked.err;
  EXPECT_THAT(looked.out, HasSubstr(" %"));
  EXPECT_TRUE(fs::exists(home / "found" / picture.filename().replace_extension(".png")));
  const ProcessResult onto = lockstep({"predict", "segmentation", "--checkpoint", "run", "--pictures",
                                       picture.parent_path().string(), picture.string()},
                                      home.path());
  EXPECT_EQ(onto.code, 64) << "a picture is never written over the one it was made of";
  EXPECT_THAT(onto.err, HasSubstr(picture.filename().string()));
}

/// Returns the only run under a folder.
fs::path run_in(const fs::path& folder) {
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1) << folder;
  return fs::directory_iterator(folder)->path();
}

TEST(SegmentationCommand, ThePathsOfTheDocumentsCommandAreWhereItSays) {
  const TempDir home;
  generate(home);
  std::vector<std::string> words = {"train", "--use_env", "segmentation", "--distributed"};
  words.insert(words.end(), kTiny.begin(), kTiny.end());
  words.insert(words.end(), {"--dataset_path", "VOC2012", "--epochs", "2", "--chk_interval", "1", "--val_epoch", "1",
                             "--logdir", "log", "--model_path", "None"});
  const ProcessResult run = lockstep(words, home.path());
  ASSERT_EQ(run.code, 0) << run.err << run.out;
  const fs::path folder = run_in(home / "log");
  EXPECT_TRUE(fs::is_directory(folder / "tensorboard"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "checkpoints"), {}) > 2, true);
  std::ifstream log(folder / "log.jsonl");
  const std::string lines{std::istreambuf_iterator<char>(log), {}};
  ASSERT_NE(lines.find("\"miou\""), std::string::npos);
  EXPECT_EQ(lines.find("\"miou\""), lines.rfind("\"miou\"")) << "only the second epoch is evaluated: " << lines;
  const auto said = [&](const char* what) { return run.err.find(what); };
  ASSERT_NE(said("model_path is None"), std::string::npos) << run.err;
  EXPECT_LT(said("model_path is None"), said("settings under other names"));

  std::vector<std::string> own = words;
  own.insert(own.end(), {"--run-dir", "runs/own", "--model_path", "last.pth"});
  const ProcessResult missing = lockstep(own, home.path());
  EXPECT_NE(missing.code, 0);
  EXPECT_THAT(missing.err, HasSubstr("last.pth")) << "the weights are those of --init-from";
  own.resize(own.size() - 2);
  const ProcessResult apart = lockstep(own, home.path());
  ASSERT_EQ(apart.code, 0) << apart.err;
  EXPECT_TRUE(fs::exists(home / "log/own")) << "TensorBoard's files of a run with a place of its own";
  EXPECT_FALSE(fs::exists(home / "runs/own/tensorboard"));
}

TEST(SegmentationCommand, UnderALauncherTheLogFolderHoldsTheRunAsWell) {
  const TempDir home;
  generate(home);
  std::vector<std::string> words = {"run",        "--nproc_per_node=2", "--use_env",     lockstep_path(),
                                    "train",      "segmentation",       "--distributed", "--dataset_path",
                                    "VOC2012",    "--logdir",           "log",           "--set",
                                    "max_steps=1"};
  words.insert(words.end(), kTiny.begin(), kTiny.end());
  const ProcessResult run = lockstep(words, home.path());
  ASSERT_EQ(run.code, 0) << run.err << run.out;
  EXPECT_TRUE(fs::exists(run_in(home / "log") / "log.jsonl"));
}

TEST(SegmentationCommand, PicturesAndMasksOfOnesOwnNeedNoLists) {
  const TempDir home;
  generate(home);
  fs::create_directories(home / "mine");
  fs::rename(home / "VOC2012/JPEGImages", home / "mine/images");
  fs::rename(home / "VOC2012/SegmentationClassAug", home / "mine/masks");
  std::ofstream(home / "mine/classes.txt") << "paper\nred\ngreen\nblue\nyellow\n";
  const ProcessResult run = lockstep({"train", "segmentation:small", "--run-dir", "run", "-u", "data.train=mine",
                                      "data.val_fraction=0.25", "max_steps=2", "augment.crop=48", "batch_size=2"},
                                     home.path());
  ASSERT_EQ(run.code, 0) << run.err << run.out;
  EXPECT_THAT(run.err, AllOf(HasSubstr("mine: 9 of 12 images are for training"),
                             HasSubstr("mine: 3 of 12 images are for the test")));
  EXPECT_THAT(run.out, AllOf(HasSubstr("yellow"), HasSubstr("learns from masks")));
  const ProcessResult judged = lockstep({"eval", "segmentation", "--checkpoint", "run", "--data", "mine"}, home.path());
  EXPECT_EQ(judged.code, 0) << judged.err;
  EXPECT_THAT(judged.out, HasSubstr("3 samples")) << "the same part of the set";
  const ProcessResult both =
      lockstep({"train", "segmentation:small", "-u", "data.train=mine", "data.test=other", "data.val_fraction=0.25"},
               home.path());
  EXPECT_EQ(both.code, 64);
  EXPECT_THAT(both.err, HasSubstr("each of them defines the test set"));
}

TEST(SegmentationCommand, AnUnknownClassIdIsAnErrorOfTheDataThatNamesTheFile) {
  const TempDir home;
  generate(home);
  const ProcessResult run = lockstep(
      {"train", "segmentation", "--run-dir", "run", "--dataset_path", "VOC2012", "--numclasses", "2", "--layers", "18"},
      home.path());
  EXPECT_EQ(run.code, 65);
  EXPECT_THAT(run.err, AllOf(HasSubstr("VOC2012/"), HasSubstr(".png"), HasSubstr("class")));
}

TEST(SegmentationCommand, AMisspeltRecipeIsNamedBeforeItsArguments) {
  const TempDir home;
  const ProcessResult run = lockstep({"train", "segmentatoin:voc", "--layers", "50"}, home.path());
  EXPECT_EQ(run.code, 64);
  EXPECT_THAT(run.err, HasSubstr("did you mean 'segmentation'"));
  const ProcessResult file = lockstep({"train", "nofile.yml", "--epochs", "5"}, home.path());
  EXPECT_EQ(file.code, 65);
  EXPECT_THAT(file.err, HasSubstr("nofile.yml"));
}

TEST(SegmentationCommand, AMisspeltArgumentIsAnErrorWithTheNearestOne) {
  const TempDir home;
  const ProcessResult run = lockstep({"train", "segmentation:smoke", "--l_pseudo", "1"}, home.path());
  EXPECT_EQ(run.code, 64);
  EXPECT_THAT(run.err, AllOf(HasSubstr("unknown option '--l-pseudo'"), HasSubstr("did you mean '--l_pesudo'")));
}

TEST(SegmentationCommand, ALossWhoseMapsAreMissingSaysHowToGetThem) {
  const TempDir home;
  generate(home);
  fs::remove_all(home / "VOC2012/distance_map");
  std::vector<std::string> words = {"train", "segmentation", "--run-dir", "run", "--dataset_path", "VOC2012"};
  words.insert(words.end(), kTiny.begin(), kTiny.end());
  const ProcessResult run = lockstep(words, home.path());
  EXPECT_EQ(run.code, 65);
  EXPECT_THAT(run.err, HasSubstr("distance_map"));
  words.insert(words.end(), {"--l_ds", "0"});
  const ProcessResult without = lockstep(words, home.path());
  EXPECT_EQ(without.code, 0) << without.err;
  EXPECT_THAT(without.out, Not(HasSubstr("distance_scribble")));
}

}  // namespace segmentation_command_test

namespace weak_labels_command_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Making weak labels: a generated dataset, then scribbles, pseudo-labels and distance maps from its masks, step by step
// and all at once.

class WeakLabelsCommand : public ::testing::Test {
 protected:
  ProcessResult generate(std::vector<std::string> words) {
    words.insert(words.begin(), "generate");
    return ask_worker(words, home_.path());
  }
  TempDir home_;
};

TEST_F(WeakLabelsCommand, MakesEachMapOfTheOneBefore) {
  const ProcessResult drawn =
      generate({"segmentation", "--out", "set", "--count", "5", "--seed", "1", "--size", "40-64"});
  ASSERT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_THAT(drawn.out, HasSubstr("5 images in set: 4 to train, 1 to validate"));
  const ProcessResult scribbles =
      generate({"scribbles", "--masks", "set/SegmentationClassAug", "--out", "scribbles", "--seed", "1"});
  EXPECT_THAT(scribbles.out, AllOf(HasSubstr("5 scribble maps in scribbles"), HasSubstr("% of the pixels")));
  const ProcessResult pseudo =
      generate({"pseudo-labels", "--images", "set/JPEGImages", "--scribbles", "scribbles", "--out", "pseudo"});
  EXPECT_THAT(pseudo.out, HasSubstr("5 pseudo-label maps in pseudo")) << pseudo.err;
  const ProcessResult coarse = generate(
      {"pseudo-labels", "--method", "coarse", "--masks", "set/SegmentationClassAug", "--cell", "4", "--out", "coarse"});
  EXPECT_EQ(coarse.code, 0) << coarse.err;
  EXPECT_EQ(generate({"distance-maps", "--scribbles", "scribbles", "--out", "near"}).code, 0);
  const ProcessResult borders =
      generate({"distance-maps", "--pseudo-labels", "pseudo", "--lambda", "7.4", "--out", "borders"});
  EXPECT_THAT(borders.out, HasSubstr("5 distance maps in borders")) << borders.err;
  EXPECT_TRUE(fs::exists(home_ / "borders/000004.png"));
  const ProcessResult at_once = generate({"weak-labels", "--from", "set", "--out", "weak", "--seed", "1"});
  EXPECT_THAT(at_once.out, AllOf(HasSubstr("train: 4 images"), HasSubstr("val: 1 images"), HasSubstr("mean IoU 0.")))
      << at_once.err;
}

TEST_F(WeakLabelsCommand, NeverWritesIntoAFullFolder) {
  ASSERT_EQ(generate({"segmentation", "--out", "set", "--count", "2", "--seed", "1", "--size", "40"}).code, 0);
  for (const std::string verb : {"weak-labels", "scribbles"}) {
    const std::string from = verb == "scribbles" ? "--masks" : "--from";
    const std::string source = verb == "scribbles" ? "set/SegmentationClassAug" : "set";
    const ProcessResult again = generate({verb, from, source, "--out", "set", "--seed", "1"});
    EXPECT_EQ(again.code, 64);
    EXPECT_THAT(again.err, HasSubstr("folder set is not empty"));
  }
}

TEST_F(WeakLabelsCommand, SaysWhatIsMissing) {
  const ProcessResult no_folder = generate({"weak-labels", "--from", "nowhere", "--out", "weak", "--seed", "1"});
  EXPECT_EQ(no_folder.code, 65);
  EXPECT_THAT(no_folder.err, HasSubstr("data set nowhere does not exist"));
  const ProcessResult no_images = generate({"pseudo-labels", "--scribbles", "x", "--out", "y"});
  EXPECT_EQ(no_images.code, 64);
  EXPECT_THAT(no_images.err, HasSubstr("--images and --scribbles"));
  const ProcessResult flat = generate({"distance-maps", "--scribbles", "x", "--lambda", "0", "--out", "z"});
  EXPECT_EQ(flat.code, 64);
  EXPECT_THAT(flat.err, HasSubstr("lambda is 0, must be above 0"));
  const ProcessResult no_training =
      generate({"segmentation", "--out", "z", "--count", "2", "--seed", "1", "--val-share", "0.9"});
  EXPECT_EQ(no_training.code, 64);
  EXPECT_THAT(no_training.err, HasSubstr("leaves none for training"));
  const ProcessResult both = generate({"distance-maps", "--scribbles", "x", "--pseudo-labels", "y", "--out", "z"});
  EXPECT_EQ(both.code, 64);
  EXPECT_THAT(both.err, HasSubstr("either"));
}

TEST_F(WeakLabelsCommand, HasHelpWithAnExampleForEachVerb) {
  for (const std::string verb : {"segmentation", "scribbles", "pseudo-labels", "distance-maps", "weak-labels"}) {
    const ProcessResult help = generate({verb, "--help"});
    EXPECT_EQ(help.code, 0) << verb;
    EXPECT_THAT(help.out, HasSubstr("  lockstep generate " + verb + " --")) << verb;
  }
}

}  // namespace weak_labels_command_test
}  // namespace lockstep::test
