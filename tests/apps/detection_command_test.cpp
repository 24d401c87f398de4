// SPDX-License-Identifier: Apache-2.0
// Detection from the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "lockstep/data/contact_sheet.h"
#include "support/data_folder.h"
#include "support/temp_dir.h"

namespace lockstep::test {
namespace detection_command_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// The detection recipe from the command line: scenes, training in two stages, evaluation and images.

/// A quick network, which does not have to find anything.
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
  EXPECT_THAT(run.out, HasSubstr("total batch         4 x 1 replica = 4\n"));
}

TEST(DetectionCommand, ABadSetNamesFileAndEntry) {
  const TempDir home;
  ASSERT_EQ(lockstep({"generate", "detection", "--out", "set", "--count", "2", "--seed", "1"}, home.path()).code, 0);
  const ProcessResult classes =
      lockstep({"train", "detection", "-u", "data.train=set", "num_classes=3", "--run-dir", "a"}, home.path());
  EXPECT_EQ(classes.code, 64);
  EXPECT_THAT(classes.err, AllOf(HasSubstr("num_classes is 3, but set has 8 classes (circle, triangle"),
                                 HasSubstr("omit num_classes")));
  std::ofstream(home / "set/annotations.json") << "{";
  const ProcessResult torn = lockstep({"train", "detection", "-u", "data.train=set", "--run-dir", "b"}, home.path());
  EXPECT_EQ(torn.code, 65);
  EXPECT_THAT(torn.err, AllOf(HasSubstr("annotations.json"), Not(HasSubstr("InternalError"))));
}

/// A Pascal VOC dataset of images that `generate` drew: raccoons in all of them, squirrels in those of the split
/// `both`.
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
  EXPECT_THAT(run.err, HasSubstr("set: no box has class 1 (squirrel): it will never be found"));
  const ProcessResult looked = lockstep({"predict", "detection", "--checkpoint", "run", "set/JPEGImages"}, home.path());
  EXPECT_EQ(looked.code, 0) << looked.err;
  EXPECT_EQ(std::ranges::count(looked.out, '\n'), 6) << "a folder means its pictures: " << looked.out;
  EXPECT_THAT(looked.out, AllOf(HasSubstr("000001.png  nothing found"), Not(HasSubstr("%"))));
  const ProcessResult json =
      lockstep({"predict", "detection", "--checkpoint", "run", "set/JPEGImages", "--json"}, home.path());
  EXPECT_THAT(json.out, HasSubstr("\"confidence\": null, \"width\""));
  const ProcessResult empty = lockstep({"predict", "detection", "--checkpoint", "run", "set/ImageSets"}, home.path());
  EXPECT_EQ(empty.code, 65);
  EXPECT_THAT(empty.err, HasSubstr("set/ImageSets"));
}

}  // namespace detection_command_test

namespace detection_files_command_test {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Detection in D-FINE's and DEIM's terms: their files and options, unprepared datasets, results for other tools.

const fs::path kTree = fs::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/recipes/detection/origin";
const std::string kDeim = (kTree / "deim_dfine/deim_hgnetv2_s_scenes.yml").string();

/// The original's arguments for a quick network and a quick run.
const std::vector<std::string> kSmall = {"-u",
                                         "eval_spatial_size=[64, 64]",
                                         "HybridEncoder.hidden_dim=32",
                                         "DFINETransformer.hidden_dim=32",
                                         "HybridEncoder.nhead=2",
                                         "HybridEncoder.dim_feedforward=32",
                                         "DFINETransformer.dim_feedforward=32",
                                         "DFINETransformer.num_layers=1",
                                         "DFINETransformer.num_queries=40",
                                         "DFINETransformer.num_denoising=10",
                                         "epoches=2",
                                         "flat_epoch=1",
                                         "no_aug_epoch=0",
                                         "warmup_iter=1",
                                         "train_dataloader.collate_fn.stop_epoch=1",
                                         "train_dataloader.collate_fn.base_size_repeat=null",
                                         "train_dataloader.dataset.transforms.policy.epoch=[0, 1, 1]",
                                         "checkpoint_freq=1"};

/// The recipe's own arguments for such a network.
const std::vector<std::string> kTiny = {
    "image_size=64",    "model.hidden=32",    "model.heads=2",          "model.decoder_layers=1",
    "model.queries=40", "model.denoising=20", "batch_size=2",           "epochs=1",
    "stop_epoch=0",     "log_every_steps=1",  "schedule.warmup_steps=1"};

/// Most of a network's parameters are in its backbone.
const std::string kOtherBackbone =
    "model.stages=[{middle: 40, out: 72, blocks: 1, layers: 3},{middle: 56, out: 104, blocks: 1, layers: 3},"
    "{middle: 72, out: 168, blocks: 1, layers: 3}]";

ProcessResult run(std::vector<std::string> words, const std::vector<std::string>& more, const fs::path& home) {
  words.insert(words.end(), more.begin(), more.end());
  return lockstep(std::move(words), home);
}

void draw_scenes(const fs::path& home, const std::string& out, const std::string& seed,
                 const std::string& count = "8") {
  const ProcessResult made =
      generate_once({"detection", "--count", count, "--seed", seed, "--size", "64-96"}, home / out);
  ASSERT_EQ(made.code, 0) << made.err;
}

std::string text_of(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(DetectionFiles, ATreeOfTheOriginTrainsWithTheOriginsOptions) {
  const TempDir home;
  draw_scenes(home.path(), "data/train", "1");
  draw_scenes(home.path(), "data/test", "2");
  const ProcessResult trained =
      run({"train", "detection", "-c", kDeim, "-d", "cpu", "--seed", "3", "--use-amp", "--output_dir", "out",
           "--summary-dir", "curves", "--print-method", "rich", "--print_rank", "0"},
          kSmall, home.path());
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err, AllOf(HasSubstr("settings without an effect here: "),
                                 HasSubstr("print_method is rich, which has no effect here: use --quiet"),
                                 HasSubstr("HGNetv2.pretrained is ")));
  EXPECT_THAT(text_of(home / "out/config.yml"),
              AllOf(HasSubstr("seed: 3\n"), HasSubstr("amp: bf16\n"), HasSubstr("every_epochs: 1\n"),
                    HasSubstr("epochs: 2\n"), HasSubstr("class_names: [circle, triangle")));
  EXPECT_TRUE(fs::exists(home / "curves/out")) << "for TensorBoard";
  EXPECT_TRUE(fs::exists(home / "out/checkpoints"));
  const ProcessResult tested =
      run({"train", "detection", "-c", kDeim, "-r", "out", "--test-only", "--output-dir", "out"}, kSmall, home.path());
  ASSERT_EQ(tested.code, 0) << tested.err;
  EXPECT_THAT(tested.out, HasSubstr("Average Precision  (AP) @[ IoU=0.50:0.95"));
  EXPECT_TRUE(json::parse(text_of(home / "out/eval/detections.json")).is_array());
  const json metrics = json::parse(text_of(home / "out/eval/metrics.json"));
  EXPECT_EQ(metrics.at("stats").size(), 12U);
  EXPECT_EQ(metrics.at("stats").at(0), metrics.at("AP"));
}

TEST(DetectionFiles, OutputDirOfTheFileIsTheRunsFolder) {
  const TempDir home;
  draw_scenes(home.path(), "data/train", "1");
  draw_scenes(home.path(), "data/test", "2", "2");
  std::ofstream(home / "mine.yml") << "__include__: ['" << kDeim << "']\noutput_dir: ./there\n";
  const ProcessResult trained = run({"train", "detection", "-c", "mine.yml"}, kSmall, home.path());
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(fs::exists(home / "there/config.yml"));
  const std::string weights = (home / "w.pth").string();
  ASSERT_EQ(lockstep({"checkpoint", "export", "there", "--to", weights}, home.path()).code, 0);
  const ProcessResult tested =
      run({"train", "detection", "-c", "mine.yml", "-t", weights, "--test-only", "--output-dir", "seen"}, kSmall,
          home.path());
  EXPECT_EQ(tested.code, 0) << tested.err;
  EXPECT_TRUE(fs::exists(home / "seen/eval/metrics.json"));
  const ProcessResult nothing = run({"train", "detection", "-c", "mine.yml", "--test-only"}, kSmall, home.path());
  EXPECT_EQ(nothing.code, 64);
  EXPECT_THAT(nothing.err, HasSubstr("--test-only has no weights"));
}

TEST(DetectionFiles, WhatIsWrongInTheFileNamesFileAndLine) {
  const TempDir home;
  std::ofstream(home / "bad.yml") << "epoches: 2\nHybridEncoder:\n  hidden_dimm: 32\n";
  const ProcessResult bad = lockstep({"train", "detection", "-c", "bad.yml", "--run-dir", "run"}, home.path());
  EXPECT_EQ(bad.code, 64);
  EXPECT_THAT(bad.err, AllOf(HasSubstr("bad.yml:3: unknown key 'HybridEncoder.hidden_dimm'"),
                             HasSubstr("HybridEncoder.hidden_dim")));
  std::ofstream(home / "other.yml") << "recipe: captcha\n";
  const ProcessResult other = lockstep({"train", "detection", "-c", "other.yml", "--run-dir", "run"}, home.path());
  EXPECT_EQ(other.code, 64);
  EXPECT_THAT(other.err, HasSubstr("other.yml:1: the file is for the recipe captcha, but the command names detection"));
}

TEST(DetectionFiles, WeightsThatFitLessThanHalfAreRefusedUnlessTheyAreMeant) {
  const TempDir home;
  const auto train = [&](const std::string& run_dir, std::vector<std::string> more) {
    std::vector<std::string> words = {"train", "detection", "--run-dir", run_dir};
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), {"-u", "data.train=scenes:4:1", "max_steps=1"});
    return run(words, kTiny, home.path());
  };
  ASSERT_EQ(train("first", {}).code, 0);
  ASSERT_EQ(train("same", {"-t", "first"}).code, 0);
  const ProcessResult refused = train("second", {"-t", "first", "-u", kOtherBackbone});
  EXPECT_EQ(refused.code, 65);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("elements ("), HasSubstr("--init-from-partial")));
  EXPECT_EQ(train("third", {"-t", "first", "--init-from-partial", "-u", kOtherBackbone}).code, 0);
}

/// One class, as written by a labelling tool: no lists, paths from another machine, and one gray image.
void write_mugs(const fs::path& home, const std::string& name = "mug", int count = 8) {
  draw_scenes(home, "drawn", "1", std::to_string(count));
  fs::create_directories(home / "mugs/annotations");
  fs::rename(home / "drawn/images", home / "mugs/images");
  bool first = true;
  for (const auto& picture : fs::directory_iterator(home / "mugs/images")) {
    if (std::exchange(first, false)) {
      write_png(Image{{64, 48}, 1, std::vector<std::uint8_t>(64 * 48, 90)}, picture.path());
    }
    std::ofstream(home / "mugs/annotations" / (picture.path().stem().string() + ".xml"))
        << "<annotation><folder>photos</folder><filename>" << picture.path().filename().string()
        << "</filename><path>C:\\Users\\ann\\photos\\" << picture.path().filename().string() << "</path><object><name>"
        << name
        << "</name><bndbox><xmin>10</xmin><ymin>12</ymin><xmax>40</xmax><ymax>40</ymax></bndbox></object></annotation>";
  }
  fs::remove_all(home / "drawn");
}

TEST(DetectionFiles, ASetThatNobodyPreparedTrains) {
  const TempDir home;
  write_mugs(home.path());
  const ProcessResult plain =
      run({"train", "detection", "--run-dir", "plain", "-u", "data.train=mugs"}, kTiny, home.path());
  ASSERT_EQ(plain.code, 0) << plain.err;
  const ProcessResult split =
      run({"train", "detection", "--run-dir", "run", "-u", "data.train=mugs", "data.val_fraction=0.25"}, kTiny,
          home.path());
  ASSERT_EQ(split.code, 0) << split.err;
  EXPECT_THAT(split.err, AllOf(HasSubstr("mugs: 6 of 8 images are for training"),
                               HasSubstr("mugs: 2 of 8 images are for the test")));
  EXPECT_THAT(split.out, AllOf(HasSubstr("mug "), HasSubstr("Average Precision")));
  const ProcessResult judged = lockstep(
      {"eval", "detection", "--checkpoint", "run", "--data", "mugs", "--results", "found", "--json"}, home.path());
  ASSERT_EQ(judged.code, 0) << judged.err;
  EXPECT_EQ(json::parse(judged.out).at("samples"), 2) << "the pictures that training did not see";
  const ProcessResult only =
      lockstep({"train", "detection", "--test-only", "-r", "run", "-u", "data.train=mugs", "data.val_fraction=0.25"},
               home.path());
  EXPECT_EQ(only.code, 0) << only.err;
  EXPECT_THAT(only.out, HasSubstr("mugs (2 samples"));
  const json rows = json::parse(text_of(home / "found/detections.json"));
  ASSERT_FALSE(rows.empty());
  EXPECT_EQ(rows.at(0).at("category"), "mug");
  EXPECT_EQ(rows.at(0).at("bbox").size(), 4U);
  EXPECT_EQ(json::parse(text_of(home / "found/metrics.json")).at("classes").at(0).at("name"), "mug");
}

TEST(DetectionFiles, ASetWithOtherClassesThanTheModelIsAnErrorThatNamesBoth) {
  const TempDir home;
  write_mugs(home.path());
  const ProcessResult trained =
      run({"train", "detection", "--run-dir", "run", "-u", "data.train=mugs", "max_steps=1"}, kTiny, home.path());
  ASSERT_EQ(trained.code, 0) << trained.err;
  fs::remove_all(home / "mugs");
  write_mugs(home.path(), "teapot", 2);
  const ProcessResult judged = lockstep({"eval", "detection", "--checkpoint", "run", "--data", "mugs"}, home.path());
  EXPECT_EQ(judged.code, 65);
  EXPECT_THAT(judged.err, AllOf(HasSubstr("'teapot'"), HasSubstr("mug")));
  draw_scenes(home.path(), "scenes", "1", "2");
  const ProcessResult coco = lockstep({"eval", "detection", "--checkpoint", "run", "--data", "scenes"}, home.path());
  EXPECT_EQ(coco.code, 65);
  EXPECT_THAT(coco.err, AllOf(HasSubstr("1 class (mug)"), HasSubstr("8 classes (circle, triangle")));
}

TEST(DetectionFiles, PredictGivesNumbersForAFilmInTheOrderOfItsFrames) {
  const TempDir home;
  write_mugs(home.path(), "mug", 3);
  const ProcessResult trained =
      run({"train", "detection", "--run-dir", "run", "-u", "data.train=mugs", "max_steps=1"}, kTiny, home.path());
  ASSERT_EQ(trained.code, 0) << trained.err;
  fs::create_directories(home / "film");
  int frame = 8;
  for (const auto& picture : fs::directory_iterator(home / "mugs/images")) {
    fs::copy_file(picture.path(), home / ("film/frame_" + std::to_string(frame++) + ".png"));
  }
  const ProcessResult looked = lockstep({"predict", "detection", "--checkpoint", "run", "film", "--json", "--threshold",
                                         "0", "--batch-size", "2", "--workers", "1", "--pictures", "drawn"},
                                        home.path());
  ASSERT_EQ(looked.code, 0) << looked.err;
  EXPECT_THAT(looked.err, AllOf(HasSubstr("3 files in "), HasSubstr("ms of them in the model")));
  std::istringstream lines(looked.out);
  frame = 8;
  for (std::string line; std::getline(lines, line);) {
    const json row = json::parse(line);
    EXPECT_EQ(row.at("file"), "film/frame_" + std::to_string(frame++) + ".png");
    ASSERT_FALSE(row.at("boxes").empty());
    EXPECT_EQ(row.at("boxes").at(0).size(), 4U);
    EXPECT_LT(row.at("boxes").at(0).at(0), row.at("boxes").at(0).at(2)) << "corners";
    EXPECT_EQ(row.at("names").at(0), "mug");
    EXPECT_EQ(row.at("labels").at(0), 0);
    EXPECT_EQ(row.at("scores").size(), row.at("boxes").size());
    EXPECT_GT(row.at("ms"), 0);
    for (const json& box : row.at("boxes")) {
      EXPECT_GE(box.at(0), 0) << "a box ends at the picture's edge";
      EXPECT_GE(box.at(1), 0);
      EXPECT_LE(box.at(2), row.at("width"));
      EXPECT_LE(box.at(3), row.at("height"));
    }
    EXPECT_EQ(row.at("confidence"), *std::ranges::min_element(row.at("scores")));
    EXPECT_THAT(row.at("text").get<std::string>(), Not(HasSubstr(" at -")));
  }
  const ProcessResult words =
      lockstep({"predict", "detection", "--checkpoint", "run", "film/frame_8.png", "--threshold", "0"}, home.path());
  EXPECT_THAT(words.out, ::testing::ContainsRegex("  least certain box [0-9.]+ %\n$")) << "the figure at the end";
  EXPECT_EQ(frame, 11);
  EXPECT_TRUE(fs::exists(home / "drawn/frame_10.png"));
  std::ofstream(home / "film/frame_9.png") << "not an image";
  const ProcessResult torn = lockstep({"predict", "detection", "--checkpoint", "run", "film", "--batch-size", "3",
                                       "--workers", "0", "--pictures", "found"},
                                      home.path());
  EXPECT_EQ(torn.code, 65);
  EXPECT_THAT(torn.out,
              AllOf(HasSubstr("film/frame_8.png  "), Not(HasSubstr("frame_9")), HasSubstr("film/frame_10.png  ")));
  EXPECT_THAT(torn.err, AllOf(HasSubstr("film/frame_9.png"), HasSubstr("error: 1 of 3 files could not be read")));
  EXPECT_TRUE(fs::exists(home / "found/frame_10.png"));
  EXPECT_FALSE(fs::exists(home / "found/frame_9.png"));
  fs::remove(home / "film/frame_9.png");
  const ProcessResult none =
      lockstep({"predict", "detection", "--checkpoint", "run", "film", "--threshold", "1"}, home.path());
  EXPECT_THAT(none.out, HasSubstr("nothing found with a confidence of at least 1; the best guess: mug 0."));
}

TEST(DetectionFiles, BloodCellsTrainAndAreFoundWithTheirNames) {
  LOCKSTEP_DATA_OR_SKIP(bccd, "bccd");
  const TempDir home;
  const ProcessResult trained = run({"train", "detection", "--run-dir", "run", "-u", "data.train=" + bccd.string(),
                                     "data.train_split=train", "max_steps=1"},
                                    kTiny, home.path());
  ASSERT_EQ(trained.code, 0) << trained.err;
  const ProcessResult judged = lockstep({"eval", "detection", "--checkpoint", "run", "--data", bccd.string(), "--set",
                                         "data.test_split=val", "--results", "found"},
                                        home.path());
  ASSERT_EQ(judged.code, 0) << judged.err;
  EXPECT_THAT(judged.out, AllOf(HasSubstr("Platelets"), HasSubstr("RBC"), HasSubstr("WBC")));
  EXPECT_EQ(json::parse(text_of(home / "found/metrics.json")).at("classes").size(), 3U);
  const ProcessResult looked = lockstep({"predict", "detection", "--checkpoint", "run", "--json", "--threshold", "0",
                                         (bccd / "JPEGImages/BloodImage_00000.jpg").string()},
                                        home.path());
  ASSERT_EQ(looked.code, 0) << looked.err;
  EXPECT_EQ(json::parse(looked.out).at("width"), 640);
}

}  // namespace detection_files_command_test
}  // namespace lockstep::test
