// SPDX-License-Identifier: Apache-2.0
// The detection recipe as a person types it: scenes, training in two stages, evaluation and pictures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "apps/command.h"
#include "support/temp_dir.h"

namespace lockstep::test {
namespace detection_command_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// A network that is quick, not one that finds anything.
const std::vector<std::string> kTiny = {
    "image_size=64",    "model.hidden=32",    "model.heads=2",          "model.decoder_layers=1",
    "model.queries=40", "model.denoising=20", "batch_size=4",           "epochs=2",
    "stop_epoch=1",     "log_every_steps=1",  "schedule.warmup_steps=1"};

std::vector<std::string> train_words(const std::string& train, const std::string& test) {
  std::vector<std::string> words = {"train", "detection",           "--run-dir",        "run",
                                    "-u",    "data.train=" + train, "data.test=" + test};
  words.insert(words.end(), kTiny.begin(), kTiny.end());
  return words;
}

TEST(DetectionCommand, GeneratesTrainsEvaluatesAndDraws) {
  const TempDir home;
  for (const auto& [name, seed] : {std::pair{"train", "1"}, {"test", "2"}}) {
    const ProcessResult made = lockstep(
        {"generate", "detection", "--out", name, "--count", "8", "--seed", seed, "--size", "96-128"}, home.path());
    ASSERT_EQ(made.code, 0) << made.err;
  }
  const ProcessResult trained = lockstep(train_words("train", "test"), home.path());
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out,
              AllOf(HasSubstr("refresh EMA at epoch 1 with decay 0.9999: "),
                    HasSubstr("Average Precision  (AP) @[ IoU=0.50:0.95"), HasSubstr("run/pictures/worst.png")));
  const ProcessResult judged =
      lockstep({"eval", "detection", "--checkpoint", "run:best", "--data", "test", "--pictures", "seen"}, home.path());
  EXPECT_EQ(judged.code, 0) << judged.err;
  EXPECT_THAT(judged.out, AllOf(HasSubstr("ap50"), HasSubstr("hourglass")));
  EXPECT_TRUE(fs::exists(home / "seen/worst.png"));
  const ProcessResult looked = lockstep(
      {"predict", "detection", "--checkpoint", "run", "--pictures", "found", "test/images/000001.png"}, home.path());
  EXPECT_EQ(looked.code, 0) << looked.err;
  EXPECT_TRUE(fs::exists(home / "found/000001.png"));
}

TEST(DetectionCommand, NeedsNoDataForAFirstRun) {
  const TempDir home;
  const ProcessResult run =
      lockstep({"train", "detection:smoke", "--run-dir", "run", "-u", "max_steps=2"}, home.path());
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("training samples    1,600\n"));
}

TEST(DetectionCommand, TakesAFileInTheWordsOfItsOrigin) {
  const TempDir home;
  std::ofstream(home / "runtime.yml") << "print_freq: 1\nuse_amp: False\n";
  std::ofstream(home / "deim.yml")
      << "__include__: [runtime.yml]\nrecipe: detection\nepoches: 1\nlrsheduler: flatcosine\n"
         "train_dataloader: {total_batch_size: 4, dataset: {ann_file: 'scenes:8:1'}}\n";
  const ProcessResult run =
      lockstep({"train", "deim.yml", "--run-dir", "run", "-u", "max_steps=1", "image_size=64"}, home.path());
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("epoches is epochs here"));
  EXPECT_THAT(run.out, HasSubstr("batch               4 x 1 replica = 4\n"));
}

TEST(DetectionCommand, ABadSetNamesFileAndEntry) {
  const TempDir home;
  ASSERT_EQ(lockstep({"generate", "detection", "--out", "set", "--count", "2", "--seed", "1"}, home.path()).code, 0);
  const ProcessResult classes =
      lockstep({"train", "detection", "-u", "data.train=set", "num_classes=3", "--run-dir", "a"}, home.path());
  EXPECT_EQ(classes.code, 64);
  EXPECT_THAT(classes.err, AllOf(HasSubstr("num_classes is 3, and set has 8 classes (circle, triangle"),
                                 HasSubstr("leave num_classes out")));
  std::ofstream(home / "set/annotations.json") << "{";
  const ProcessResult torn = lockstep({"train", "detection", "-u", "data.train=set", "--run-dir", "b"}, home.path());
  EXPECT_EQ(torn.code, 65);
  EXPECT_THAT(torn.err, AllOf(HasSubstr("annotations.json"), Not(HasSubstr("InternalError"))));
}

/// A Pascal VOC set of pictures that `generate` drew: raccoons in all of them, squirrels in those of the split `both`.
void write_voc(const fs::path& home) {
  ASSERT_EQ(lockstep({"generate", "detection", "--out", "drawn", "--count", "6", "--seed", "1"}, home).code, 0);
  for (const char* folder : {"set/Annotations", "set/ImageSets/Main"}) fs::create_directories(home / folder);
  fs::rename(home / "drawn/images", home / "set/JPEGImages");
  std::ofstream both(home / "set/ImageSets/Main/both.txt");
  std::ofstream some(home / "set/ImageSets/Main/some.txt");
  int number = 0;
  for (const auto& picture : fs::directory_iterator(home / "set/JPEGImages")) {
    const std::string name = picture.path().stem().string();
    const bool squirrel = ++number % 2 == 0;
    std::ofstream xml(home / "set/Annotations" / (name + ".xml"));
    xml << "<annotation>";
    for (const char* what : {"raccoon", "squirrel"}) {
      if (!squirrel && std::string(what) == "squirrel") continue;
      xml << "<object><name>" << what
          << "</name><bndbox><xmin>10</xmin><ymin>12</ymin><xmax>40</xmax><ymax>50</ymax></bndbox></object>";
    }
    xml << "</annotation>";
    both << name << "\n";
    if (!squirrel) some << name << "\n";
  }
}

std::string text_of(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(DetectionCommand, TheClassesAreThoseOfTheDataAndStayWithTheModel) {
  const TempDir home;
  write_voc(home.path());
  std::vector<std::string> words = {
      "train",         "detection:smoke",       "--run-dir",           "run", "-u", "data.train=set",
      "data.test=set", "data.train_split=both", "data.test_split=both"};
  words.insert(words.end(), kTiny.begin(), kTiny.end());
  const ProcessResult trained = lockstep(words, home.path());
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out, AllOf(HasSubstr("raccoon"), HasSubstr("squirrel"), Not(HasSubstr("circle"))));
  EXPECT_THAT(text_of(home / "run/config.yml"),
              AllOf(HasSubstr("num_classes: 2\n"), HasSubstr("class_names: [raccoon, squirrel]")));
  words.insert(words.end(), {"checkpoint.keep_last=2", "--resume", "auto"});
  const ProcessResult resumed = lockstep(words, home.path());
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  const ProcessResult judged = lockstep({"eval", "detection", "--checkpoint", "run", "--data", "set"}, home.path());
  EXPECT_EQ(judged.code, 0) << judged.err;
  EXPECT_THAT(judged.out, HasSubstr("squirrel"));
  words.insert(words.end(), {"-u", "class_names=[coon, rodent, bird]"});
  const ProcessResult three = lockstep(words, home.path());
  EXPECT_EQ(three.code, 64);
  EXPECT_THAT(three.err, HasSubstr("class_names has 3 names for 2 classes"));
}

TEST(DetectionCommand, AClassWithoutABoxIsNamed) {
  const TempDir home;
  write_voc(home.path());
  std::vector<std::string> words = {
      "train", "detection", "--run-dir", "run", "-u", "data.train=set", "data.train_split=some"};
  words.insert(words.end(), kTiny.begin(), kTiny.end());
  words.insert(words.end(), {"max_steps=1", "batch_size=2", "stop_epoch=0"});
  const ProcessResult run = lockstep(words, home.path());
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("set: no box is of class 1 (squirrel): it will never be found"));
  const ProcessResult looked = lockstep({"predict", "detection", "--checkpoint", "run", "set/JPEGImages"}, home.path());
  EXPECT_EQ(looked.code, 0) << looked.err;
  EXPECT_EQ(std::ranges::count(looked.out, '\n'), 6) << "a folder stands for its pictures: " << looked.out;
  EXPECT_THAT(looked.out, AllOf(HasSubstr("000001.png  nothing found"), Not(HasSubstr("%"))));
  const ProcessResult json =
      lockstep({"predict", "detection", "--checkpoint", "run", "set/JPEGImages", "--json"}, home.path());
  EXPECT_THAT(json.out, HasSubstr("\"confidence\": null, \"width\""));
  const ProcessResult empty = lockstep({"predict", "detection", "--checkpoint", "run", "set/ImageSets"}, home.path());
  EXPECT_EQ(empty.code, 65);
  EXPECT_THAT(empty.err, HasSubstr("set/ImageSets"));
}

}  // namespace detection_command_test
}  // namespace lockstep::test
