// SPDX-License-Identifier: Apache-2.0
// Synthetic captchas: the same bytes for the same seed, labels from the charset, and refusals that name the cause.
#include "captcha/synthetic/generate.h"

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "captcha/synthetic/draw.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "support/temp_dir.h"

namespace lockstep::captcha {
namespace captcha_generate_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

using Files = std::map<std::string, std::string>;  // name to bytes

Files generated(GenerateOptions options, const GenerateProgress& progress = nullptr) {
  const test::TempDir folder;
  options.out = folder / "set";
  generate_captchas(options, progress);
  Files files;
  for (const auto& name : FileSystem::system().list(options.out)) {
    files[name] = FileSystem::system().read(options.out / name);
  }
  return files;
}

std::string fault_of(const GenerateOptions& options) {
  try {
    generate_captchas(options);
  } catch (const UsageError& fault) {
    return fault.what();
  }
  return "no UsageError";
}

Canvas drawn(const std::string& label, Style style, std::uint64_t seed, Rasterizer& rasterizer) {
  SampleRandom random(seed);
  const FontSet fonts(label);
  return render(label, style, {fonts, rasterizer}, random);
}

std::int64_t dark_pixels(const Canvas& canvas) {
  std::int64_t dark = 0;
  for (std::size_t i = 0; i < canvas.pixels().size(); i += 3) {
    dark += canvas.pixels()[i] + canvas.pixels()[i + 1] + canvas.pixels()[i + 2] < 3 * 200 ? 1 : 0;
  }
  return dark;
}

TEST(GenerateCaptchas, GivesTheSameBytesOnAnyNumberOfThreads) {
  const Files one = generated({.count = 40, .seed = 7, .threads = 1});
  EXPECT_EQ(one.size(), 40U);
  EXPECT_EQ(generated({.count = 40, .seed = 7, .threads = 4}), one);
}

TEST(GenerateCaptchas, GivesOtherImagesForAnotherSeed) {
  const Files first = generated({.count = 10, .seed = 7});
  for (const auto& [name, bytes] : generated({.count = 10, .seed = 8})) {
    EXPECT_FALSE(first.contains(name) && first.at(name) == bytes) << name;
  }
}

TEST(GenerateCaptchas, ALongerSetBeginsWithTheShorterOne) {
  const Files longer = generated({.count = 12, .seed = 3});
  for (const auto& [name, bytes] : generated({.count = 5, .seed = 3})) EXPECT_EQ(longer.at(name), bytes) << name;
}

TEST(GenerateCaptchas, LabelsUseEveryCharacterOfTheCharsetAndNoOther) {
  std::set<char> used;
  for (const auto& [name, bytes] : generated({.count = 60, .seed = 1, .charset = "07xZ", .length = 6})) {
    const std::string label = name.substr(0, name.find('_'));
    EXPECT_EQ(label.size(), 6U) << name;
    used.insert(label.begin(), label.end());
  }
  EXPECT_EQ(used, (std::set<char>{'0', '7', 'x', 'Z'}));
}

TEST(GenerateCaptchas, HalfOfAMixedSetHasEachStyle) {
  const Files mixed = generated({.count = 6, .seed = 2});
  const Files simple = generated({.count = 6, .seed = 2, .style = StyleChoice::kSimple});
  const Files custom = generated({.count = 6, .seed = 2, .style = StyleChoice::kCustom});
  for (const auto& [name, bytes] : mixed) {
    const bool even = (name[name.find('_') + 1] - '0') % 2 == 0;
    EXPECT_EQ(bytes, even ? simple.at(name) : custom.at(name)) << name;
    EXPECT_NE(bytes, even ? custom.at(name) : simple.at(name)) << name;
  }
}

TEST(GenerateCaptchas, ReportsHowManyAreWritten) {
  std::vector<std::int64_t> reported;
  (void)generated({.count = 300, .length = 1, .width = 32, .height = 24, .threads = 2},
                  [&](std::int64_t written) { reported.push_back(written); });
  EXPECT_THAT(reported, ::testing::ElementsAre(256, 300));
}

TEST(GenerateCaptchas, RefusesAFolderThatHoldsImages) {
  const test::TempDir folder;
  std::ofstream(folder / "0A1B_3.png") << "an image";
  EXPECT_THAT(fault_of({.out = folder.path(), .count = 2}),
              AllOf(HasSubstr(folder.path().string()), HasSubstr("0A1B_3.png")));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(GenerateCaptchas, NamesAnOptionThatIsOutOfRange) {
  const test::TempDir folder;
  const fs::path out = folder / "set";
  EXPECT_THAT(fault_of({.out = out, .count = 0}), HasSubstr("count is 0"));
  EXPECT_THAT(fault_of({.out = out, .count = 1, .length = 0}), HasSubstr("length is 0"));
  EXPECT_THAT(fault_of({.out = out, .count = 1, .height = 3}), HasSubstr("height is 3"));
  EXPECT_THAT(fault_of({.out = out, .count = 1, .charset = ""}), HasSubstr("charset is empty"));
  EXPECT_FALSE(fs::exists(out));
}

TEST(GenerateCaptchas, StopsWithTheErrorOfAFileThatCannotBeWritten) {
  const test::TempDir folder;
  std::ofstream(folder / "file") << "no folder";
  EXPECT_THAT(fault_of({.out = folder / "file", .count = 1}), HasSubstr("is no folder"));
}

TEST(ExpandCharset, ExpandsRangesAndKeepsLetters) {
  EXPECT_EQ(expand_charset("0-9"), "0123456789");
  EXPECT_EQ(expand_charset("a-cXY2-2"), "abcXY2");
  EXPECT_EQ(expand_charset("-a"), "-a");
  EXPECT_EQ(expand_charset("a-"), "a-");
}

TEST(ExpandCharset, RefusesWhatCannotBeALabel) {
  for (const char* wrong : {"", "0-91", "9-0", "aa", "a_b", "a/b", "a b", "\xc3\xa9"}) {
    EXPECT_THROW((void)expand_charset(wrong), UsageError) << wrong;
  }
}

TEST(ParseStyle, SuggestsTheNearest) {
  EXPECT_EQ(parse_style("custom"), StyleChoice::kCustom);
  try {
    (void)parse_style("simpel");
    FAIL() << "no error";
  } catch (const UsageError& fault) {
    EXPECT_THAT(fault.what(), HasSubstr("'simple'"));
  }
}

TEST(FontSet, NamesAMissingFontAndItsPackage) {
  const test::TempDir folder;
  try {
    const FontSet fonts("A", folder.path());
    FAIL() << "no error";
  } catch (const ResourceError& fault) {
    EXPECT_THAT(fault.what(), AllOf(HasSubstr(folder.path().string()), HasSubstr("apt-get install fonts-dejavu-core")));
  }
}

TEST(Render, DrawsLettersBesideTheNoise) {
  Rasterizer rasterizer;
  for (const Style style : {Style::kSimple, Style::kCustom}) {
    std::int64_t wide = 0;
    std::int64_t narrow = 0;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      wide += dark_pixels(drawn("WWWW", style, seed, rasterizer));
      narrow += dark_pixels(drawn("....", style, seed, rasterizer));
    }
    EXPECT_GT(wide, narrow + 40 * 300);
  }
}

TEST(Render, KeepsTheOriginsNoiseOnWhite) {
  Rasterizer rasterizer;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Canvas canvas = drawn("....", Style::kCustom, seed, rasterizer);
    std::set<std::array<int, 3>> colors;
    for (std::size_t i = 0; i < canvas.pixels().size(); i += 3) {
      colors.insert({canvas.pixels()[i], canvas.pixels()[i + 1], canvas.pixels()[i + 2]});
    }
    EXPECT_TRUE(colors.contains({255, 255, 255}));
    EXPECT_GE(colors.size(), 100U) << "at least a hundred points of random colours";
  }
}

TEST(Canvas, ClipsWhatLiesOutside) {
  Rasterizer rasterizer;
  Canvas canvas(rasterizer, 8, 4, {255, 255, 255});
  const std::array path{Point{-50, 2}, Point{90, 2}};
  canvas.fill(stroke(path, 2), {10, 20, 30});
  canvas.dot(8, 0, {0, 0, 0});
  canvas.dot(0, -1, {0, 0, 0});
  std::vector<std::uint8_t> rows;
  for (std::size_t y = 0; y < 4; ++y) rows.push_back(canvas.pixels()[y * 8 * 3]);
  EXPECT_THAT(rows, ::testing::ElementsAre(255, 10, 10, 255));
  EXPECT_EQ(canvas.pixels()[3 * 8 * 3 + 7 * 3], 255);
}

}  // namespace captcha_generate_test
}  // namespace lockstep::captcha
