// SPDX-License-Identifier: Apache-2.0
// `lockstep inspect data` and `lockstep pack` from the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/command.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/contact_sheet.h"
#include "lockstep/data/draw_boxes.h"
#include "lockstep/data/png_writer.h"
#include "support/exif.h"
#include "support/temp_dir.h"

namespace lockstep::test {
namespace data_command_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// The remarks of `lockstep inspect data` on a user's dataset before training, and of `predict` on a file of a different
// size: each names the setting that would fit.

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

void put_picture(const fs::path& file, const Image& image) {
  fs::create_directories(file.parent_path());
  write_png(image, file);
}

TEST(InspectData, SaysOnceThatLabelsOfCaptchasDoNotFitAndWhatWould) {
  const TempDir home;
  ASSERT_EQ(generate_digits(home / "set", 6, 1).code, 0);
  const std::vector<std::string> inspect = {"inspect", "data", "captcha", "--set", "data.train=set"};
  const ProcessResult good = lockstep(inspect, home.path());
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_THAT(good.out, Not(HasSubstr("do not match the settings")));
  for (const std::string& name : FileSystem::system().list(home / "set")) {
    fs::rename(home / "set" / name, home / "set" / ("x" + name));
  }
  const ProcessResult trained = lockstep({"train", "captcha", "--set", "data.train=set"}, home.path());
  EXPECT_EQ(trained.code, 65);
  const ProcessResult bad = lockstep(inspect, home.path());
  EXPECT_EQ(bad.code, 0) << bad.err;
  EXPECT_THAT(bad.out, AllOf(HasSubstr("set: 6 images, all readable"),
                             HasSubstr("6 of 6 labels do not match the settings"), HasSubstr("6 images drawn into")));
  EXPECT_EQ(count_of(bad.out + bad.err, "has 5 characters, not 4"), 1U) << bad.out;
  const std::string hint = "--set data.length=5";
  EXPECT_THAT(bad.out, HasSubstr(hint));
  EXPECT_THAT(trained.err, HasSubstr(hint)) << "training says the same";
}

TEST(InspectData, ShowsMasksOf0And255AndNamesTheSettingForThem) {
  const TempDir home;
  for (const char* name : {"a.png", "b.png"}) {
    put_picture(home / "set/images" / name, {{40, 20}, 3, std::vector<std::uint8_t>(2400, 100)});
    Image mask{{40, 20}, 1, std::vector<std::uint8_t>(800, 0)};
    std::fill_n(mask.pixels.begin() + 400, 400, std::uint8_t{255});
    put_picture(home / "set/masks" / name, mask);
  }
  const ProcessResult seen = lockstep({"inspect", "data", "set", "--out", "sheet.png"}, home.path());
  EXPECT_EQ(seen.code, 0) << seen.err;
  EXPECT_THAT(seen.out, HasSubstr("--set data.mask_values='{0: 0, 255: 1}'"));
  const Image sheet = read_image(home / "sheet.png", ColorMode::kRgb);
  std::set<std::vector<std::uint8_t>> colours;
  for (std::size_t i = 0; i < sheet.pixels.size(); i += 3) {
    colours.insert({sheet.pixels[i], sheet.pixels[i + 1], sheet.pixels[i + 2]});
  }
  const auto ink = mark_ink(255);
  std::vector<std::uint8_t> tinted;
  for (const std::uint8_t channel : ink) tinted.push_back(static_cast<std::uint8_t>(55.0F + 0.45F * channel + 0.5F));
  EXPECT_TRUE(colours.contains(tinted)) << "the masks can be seen";
  const auto json = nlohmann::json::parse(lockstep({"inspect", "data", "set", "--json"}, home.path()).out);
  EXPECT_THAT(json["remarks"][0].get<std::string>(), HasSubstr("data.mask_values"));
  const ProcessResult meant = lockstep({"inspect", "data", "segmentation", "--set", "data.train=set", "--set",
                                        "data.mask_values={0: 0, 255: 1}", "--json"},
                                       home.path());
  EXPECT_EQ(nlohmann::json::parse(meant.out)["remarks"].size(), 0U) << meant.err;
  EXPECT_EQ(nlohmann::json::parse(meant.out)["pixels"]["1"], 800);
}

TEST(InspectData, CountsPicturesThatLie) {
  const TempDir home;
  fs::create_directories(home / "set");
  const fs::path golden = fs::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data/golden/part_444.jpg";
  std::ofstream(home / "set/a.JPG", std::ios::binary) << with_exif_orientation(FileSystem::system().read(golden), 6);
  const ProcessResult seen = lockstep({"inspect", "data", "set"}, home.path());
  EXPECT_THAT(seen.out, AllOf(HasSubstr("1 image turned upright"), ::testing::ContainsRegex("width, pixels +75 ")));
  EXPECT_THAT(seen.err, HasSubstr("set/a.JPG: it is rotated upright according to its EXIF orientation (6)"));
}

TEST(PredictCaptcha, OfAnotherSizeSaysWhatItWouldTake) {
  const TempDir home;
  ASSERT_EQ(generate_digits(home / "set", 8, 1).code, 0);
  ASSERT_EQ(lockstep(train_words(home / "set", home / "run")).code, 0);
  put_picture(home / "other/1234_0.png", {{200, 80}, 1, std::vector<std::uint8_t>(16'000, 100)});
  const ProcessResult read = lockstep({"predict", "captcha", "--checkpoint", "run", "other/1234_0.png"}, home.path());
  EXPECT_EQ(read.code, 65);
  EXPECT_THAT(read.err, AllOf(HasSubstr("other/1234_0.png is 200 x 80 pixels, but the model expects 160 x 60"),
                              HasSubstr("-resize '160x60!'"), HasSubstr("lockstep train captcha"),
                              HasSubstr("--set data.width=200 --set data.height=80")));
  const ProcessResult trained = lockstep({"train", "captcha", "--set", "data.train=other"}, home.path());
  EXPECT_EQ(trained.code, 65);
  EXPECT_THAT(trained.err, HasSubstr("add --set data.width=200 --set data.height=80"));
}

// `lockstep pack` from the command line.

const fs::path kGolden = fs::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data/golden";

/// A folder of two classes with one image each.
class PackCommand : public ::testing::Test {
 protected:
  PackCommand() {
    for (const char* name : {"cat", "dog"}) {
      fs::create_directories(home_ / "data" / name);
      fs::copy_file(kGolden / "rgb.png", home_ / "data" / name / "1.png");
    }
  }
  ProcessResult pack(std::vector<std::string> words) {
    words.insert(words.begin(), "pack");
    return ask_worker(words, home_.path());
  }
  TempDir home_;
};

TEST_F(PackCommand, PacksChecksAndFindsTheFirstBadSample) {
  const ProcessResult made = pack({"data", "--out", "a.pack", "--workers", "2"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, StartsWith("2 samples in a.pack ("));
  EXPECT_THAT(pack({"--check", "a.pack"}).out, StartsWith("a.pack: whole (2 samples"));
  std::fstream file(home_ / "a.pack", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4100);
  file.put('\x01');
  file.close();
  const ProcessResult bad = pack({"--check", "a.pack"});
  EXPECT_EQ(bad.code, 65);
  EXPECT_THAT(bad.err, AllOf(HasSubstr("byte 4096: sample 0 differs"), HasSubstr("lockstep pack")));
}

TEST_F(PackCommand, WritesShardsAndReadsThemBack) {
  const ProcessResult tar = pack({"data", "--out", "t.tar", "--format", "tar", "--shard-size", "1K"});
  EXPECT_EQ(tar.code, 0) << tar.err;
  EXPECT_TRUE(fs::exists(home_ / "t-000001.tar"));
  const ProcessResult back = pack({"t-{000000..000001}.tar", "--out", "b.pack", "--encoded"});
  EXPECT_EQ(back.code, 0) << back.err;
  EXPECT_THAT(back.out, StartsWith("2 samples in b.pack"));
}

TEST_F(PackCommand, ABadPictureIsAnInputErrorUnlessItIsSkipped) {
  std::ofstream(home_ / "data/dog/2.png") << "nothing";
  const ProcessResult bad = pack({"data", "--out", "a.pack"});
  EXPECT_EQ(bad.code, 65);
  EXPECT_THAT(bad.err, HasSubstr("dog/2.png"));
  EXPECT_FALSE(fs::exists(home_ / "a.pack"));
  const ProcessResult skipped = pack({"data", "--out", "a.pack", "--skip-bad"});
  EXPECT_EQ(skipped.code, 0) << skipped.err;
  EXPECT_THAT(skipped.out, AllOf(HasSubstr("2 samples"), HasSubstr("1 skipped"), HasSubstr("dog/2.png")));
}

TEST_F(PackCommand, WhatIsMissingOrWrongIsToldWithTheNextStep) {
  const std::vector<std::pair<std::vector<std::string>, int>> cases = {
      {{"nowhere", "--out", "x"}, 65},
      {{"data"}, 64},
      {{"data", "--out", "x", "--format", "tra"}, 64},
      {{"data", "--out", "x", "--shard-size", "2M"}, 64},
      {{"data", "--out", "x", "--format", "tar", "--shard-size", "2Q"}, 64},
      {{"data", "--out", "x", "--type", "clases"}, 64},
      {{"data", "--out", "x", "--encoded", "--max-side", "8"}, 64},
      {{"data", "--out", "x", "--workers", "0"}, 64},
      {{"--check", "none.pack"}, 65}};
  for (const auto& [words, code] : cases) {
    const ProcessResult result = pack(words);
    EXPECT_EQ(result.code, code) << words.back() << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr("error:"));
  }
  EXPECT_THAT(pack({"--help"}).out, HasSubstr("lockstep pack data/bccd --split train --out bccd.pack"));
}

}  // namespace data_command_test
}  // namespace lockstep::test
