// SPDX-License-Identifier: Apache-2.0
// Scenes and their captions: the same bytes for the same seed, true and distinct captions, images that match them, and
// datasets on disk that are read back.
#include "captioning/synthetic/generate.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "captioning/data/captions.h"
#include "captioning/data/vocabulary.h"
#include "captioning/metrics/tokens.h"
#include "captioning/synthetic/scene.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"

namespace lockstep::captioning {
namespace captioning_generate_test {

using test::fault_of;
using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;

namespace fs = std::filesystem;

constexpr std::int64_t kScenes = 600;

const std::map<std::string, ShapeKind> kNouns{
    {"circle", ShapeKind::kCircle},  {"disc", ShapeKind::kCircle},        {"square", ShapeKind::kSquare},
    {"box", ShapeKind::kSquare},     {"boxes", ShapeKind::kSquare},       {"triangle", ShapeKind::kTriangle},
    {"star", ShapeKind::kStar},      {"cross", ShapeKind::kCross},        {"crosses", ShapeKind::kCross},
    {"ring", ShapeKind::kRing},      {"circles", ShapeKind::kCircle},     {"discs", ShapeKind::kCircle},
    {"squares", ShapeKind::kSquare}, {"triangles", ShapeKind::kTriangle}, {"stars", ShapeKind::kStar},
    {"rings", ShapeKind::kRing}};
const std::map<std::string, ShapeColor> kColors{{"red", ShapeColor::kRed},       {"green", ShapeColor::kGreen},
                                                {"blue", ShapeColor::kBlue},     {"yellow", ShapeColor::kYellow},
                                                {"orange", ShapeColor::kOrange}, {"purple", ShapeColor::kPurple},
                                                {"white", ShapeColor::kWhite}};

/// A thing in a caption, with its color or just its kind.
struct Named {
  std::size_t place = 0;  ///< the index of its noun among the words
  std::vector<const SceneShape*> shapes;
};

std::vector<Named> named_in(const std::vector<std::string>& words, const Scene& scene) {
  std::vector<Named> all;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto noun = kNouns.find(words[i]);
    if (noun == kNouns.end()) continue;
    const auto color = kColors.find(words[i - 1]);
    Named named{i, {}};
    for (const SceneShape& shape : scene.shapes) {
      if (shape.kind == noun->second && (color == kColors.end() || shape.color == color->second)) {
        named.shapes.push_back(&shape);
      }
    }
    all.push_back(named);
  }
  return all;
}

std::string joined(const std::vector<std::string>& words, std::size_t from, std::size_t to) {
  std::string text;
  for (std::size_t i = from; i < to; ++i) text += words[i] + " ";
  return text;
}

/// The axis of a relation, and the order along it: -1, 0 or 1; ' ' if the caption has no relation.
struct Relation {
  char axis = ' ';
  int order = 0;
};

Relation relation_in(const std::string& words) {
  if (words.find("left of") != std::string::npos) return {'x', -1};
  if (words.find("right of") != std::string::npos) return {'x', 1};
  if (words.find("above") != std::string::npos || words.find("over") != std::string::npos) return {'y', -1};
  if (words.find("below") != std::string::npos || words.find("under") != std::string::npos) return {'y', 1};
  return {};
}

bool holds(const Relation& relation, const Named& a, const Named& b) {
  return std::ranges::all_of(a.shapes, [&](const SceneShape* one) {
    return std::ranges::all_of(b.shapes, [&](const SceneShape* other) {
      const double gap = relation.axis == 'x' ? one->x - other->x : one->y - other->y;
      return relation.order < 0 ? gap < -0.2 : gap > 0.2;
    });
  });
}

TEST(SceneCaptions, NameOnlyWhatIsThere) {
  for (std::int64_t i = 0; i < kScenes; ++i) {
    const Scene scene = make_scene(3, i);
    for (const std::string& caption : scene_captions(scene)) {
      for (const Named& named : named_in(words_of(caption), scene)) {
        EXPECT_FALSE(named.shapes.empty()) << i << ": " << caption;
      }
    }
  }
}

TEST(SceneCaptions, TellRelationsThatHold) {
  int seen = 0;
  for (std::int64_t i = 0; i < kScenes; ++i) {
    const Scene scene = make_scene(3, i);
    for (const std::string& caption : scene_captions(scene)) {
      const std::vector<std::string> words = words_of(caption);
      const std::vector<Named> things = named_in(words, scene);
      if (things.size() < 2) continue;
      const Relation between = relation_in(joined(words, things[0].place, things[1].place));
      const Relation before = relation_in(joined(words, 0, things[0].place));
      // "above a star is a ring": the second thing lies above.
      if (between.axis != ' ') {
        EXPECT_TRUE(holds(between, things[0], things[1])) << i << ": " << caption;
      }
      if (before.axis != ' ') {
        EXPECT_TRUE(holds(before, things[1], things[0])) << i << ": " << caption;
      }
      seen += between.axis != ' ' || before.axis != ' ' ? 1 : 0;
    }
  }
  EXPECT_GT(seen, kScenes);
}

TEST(SceneCaptions, TellCornersNumbersAndSizesThatHold) {
  int corners = 0;
  for (std::int64_t i = 0; i < kScenes; ++i) {
    const Scene scene = make_scene(3, i);
    for (const std::string& caption : scene_captions(scene)) {
      const std::vector<std::string> words = words_of(caption);
      for (const Named& named : named_in(words, scene)) {
        const std::string& size = named.place >= 2 ? words[named.place - 2] : "";
        for (const SceneShape* shape : named.shapes) {
          if (size == "big" || size == "large") {
            EXPECT_EQ(shape->size, ShapeSize::kBig) << caption;
          }
          if (size == "small" || size == "little") {
            EXPECT_EQ(shape->size, ShapeSize::kSmall) << caption;
          }
        }
        if (size == "two") {
          EXPECT_EQ(named.shapes.size(), 2U) << caption;
        }
        if (named.place + 3 >= words.size() || words[named.place + 1] != "in") continue;
        const std::string row = words[named.place + 3];
        if (row != "upper" && row != "top" && row != "lower" && row != "bottom") continue;
        ++corners;
        EXPECT_EQ(named.shapes.front()->row, row == "upper" || row == "top" ? 0 : 2) << caption;
        EXPECT_EQ(named.shapes.front()->column, words[named.place + 4] == "left" ? 0 : 2) << caption;
      }
      for (const auto& [number, word] : std::map<std::size_t, std::string>{{2, "two"}, {3, "three"}, {4, "four"}}) {
        if (caption.find(word + " shapes") != std::string::npos) {
          EXPECT_EQ(scene.shapes.size(), number) << caption;
        }
      }
    }
  }
  EXPECT_GT(corners, 50);
}

TEST(SceneCaptions, DifferAndHaveFourToFourteenWords) {
  std::map<std::string, int> starts;
  for (std::int64_t i = 0; i < kScenes; ++i) {
    const std::vector<std::string> captions = scene_captions(make_scene(3, i));
    EXPECT_EQ(std::set<std::string>(captions.begin(), captions.end()).size(), kSceneCaptions) << i;
    for (const std::string& caption : captions) {
      EXPECT_THAT(words_of(caption).size(), AllOf(Ge(4U), Le(14U))) << caption;
      ++starts[words_of(caption).front()];
    }
  }
  EXPECT_GT(starts.size(), 6U);
  for (const auto& [word, count] : starts) EXPECT_LT(count, 5 * kScenes * 3 / 4) << word;
}

TEST(SceneCaptions, HaveAVocabularyOf50To80Words) {
  const auto images = read_captions({.path = "scenes:3000:1"});
  EXPECT_THAT(Vocabulary::of(images, 1).size() - 1, AllOf(Ge(50), Le(80)));
}

TEST(ScenePictures, HaveShapesThatDoNotTouchAndStayInside) {
  for (std::int64_t i = 0; i < kScenes; ++i) {
    const Scene scene = make_scene(9, i);
    EXPECT_THAT(scene.shapes.size(), AllOf(Ge(2U), Le(4U)));
    for (const SceneShape& a : scene.shapes) {
      EXPECT_GE(std::min({a.x, a.y, 1 - a.x, 1 - a.y}), a.radius) << i;
      for (const SceneShape& b : scene.shapes) {
        if (&a != &b) {
          EXPECT_GT(std::hypot(a.x - b.x, a.y - b.y), a.radius + b.radius) << i;
        }
      }
    }
  }
}

TEST(ScenePictures, HaveAGroundAndNoiseOfTheirOwn) {
  const Scene scene = make_scene(4, 1);
  Scene other = scene;
  ++other.texture;
  EXPECT_EQ(paint_scene(scene, {64, 64}).pixels, paint_scene(scene, {64, 64}).pixels);
  EXPECT_NE(paint_scene(scene, {64, 64}).pixels, paint_scene(other, {64, 64}).pixels);
  EXPECT_THAT(fault_of<UsageError>([&] {
                (void)paint_scene(scene, {64, 31});
              }),
              HasSubstr("a side of a scene is 31 pixels, must be 32 .. 4096"));
}

TEST(ScenePictures, ShowEachShapeInItsColor) {
  // The middle of a shape, or of a ring's band, has the shape's color: the brighter channels show it.
  std::set<std::pair<ShapeKind, ShapeColor>> seen;
  for (std::int64_t i = 0; i < 200; ++i) {
    const Scene scene = make_scene(4, i);
    const Image image = paint_scene(scene, {96, 64});
    for (const SceneShape& shape : scene.shapes) {
      const double off = shape.kind == ShapeKind::kRing ? 0.75 * shape.radius * 64 : 0;
      const auto x = static_cast<std::int64_t>(shape.x * 96 + off * std::cos(shape.angle));
      const auto y = static_cast<std::int64_t>(shape.y * 64 + off * std::sin(shape.angle));
      const std::uint8_t* pixel = image.pixels.data() + 3 * (y * 96 + x);
      const int red = pixel[0];
      const int green = pixel[1];
      const int blue = pixel[2];
      const std::map<ShapeColor, bool> right{{ShapeColor::kRed, red > 150 && green < 110 && blue < 110},
                                             {ShapeColor::kGreen, green > 110 && red < 110 && blue < 130},
                                             {ShapeColor::kBlue, blue > 150 && red < 110 && green < 150},
                                             {ShapeColor::kYellow, red > 180 && green > 170 && blue < 120},
                                             {ShapeColor::kOrange, red > 180 && green > 80 && green < 190 && blue < 90},
                                             {ShapeColor::kPurple, blue > 110 && red > 80 && green < 110},
                                             {ShapeColor::kWhite, red > 190 && green > 190 && blue > 190}};
      EXPECT_TRUE(right.at(shape.color)) << "scene " << i << ", color " << static_cast<int>(shape.color) << ", kind "
                                         << static_cast<int>(shape.kind) << ": " << red << " " << green << " " << blue;
      seen.emplace(shape.kind, shape.color);
    }
  }
  EXPECT_EQ(seen.size(), kShapeKinds * kShapeColors);
}

std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    files[fs::relative(entry.path(), folder).string()] = FileSystem::system().read(entry.path());
  }
  return files;
}

std::map<std::string, std::string> generated(GenerateOptions options) {
  const test::TempDir folder;
  options.out = folder / "set";
  generate_captioned_scenes(options);
  return files_of(options.out);
}

TEST(GenerateCaptioning, GivesTheSameBytesOnAnyNumberOfThreads) {
  const auto one = generated({.count = 9, .seed = 7, .size = 64, .threads = 1});
  EXPECT_EQ(one.size(), 10U);
  EXPECT_EQ(generated({.count = 9, .seed = 7, .size = 64, .threads = 4}), one);
}

TEST(GenerateCaptioning, GivesOtherPicturesForAnotherSeed) {
  const auto first = generated({.count = 5, .seed = 7, .size = 64});
  for (const auto& [name, bytes] : generated({.count = 5, .seed = 8, .size = 64})) EXPECT_NE(first.at(name), bytes);
}

TEST(GenerateCaptioning, ALongerSetBeginsWithTheShorterOne) {
  const auto longer = generated({.count = 6, .seed = 3, .size = 64});
  for (const auto& [name, bytes] : generated({.count = 3, .seed = 3, .size = 64})) {
    EXPECT_TRUE(longer.at(name).starts_with(bytes)) << name;
  }
}

TEST(GenerateCaptioning, WritesWhatIsReadBack) {
  const auto in_memory = read_captions({.path = "scenes:4:5"});
  for (const CaptionFormat format : {CaptionFormat::kText, CaptionFormat::kCoco}) {
    const test::TempDir folder;
    generate_captioned_scenes({.out = folder.path() / "set", .count = 4, .seed = 5, .size = 64, .format = format});
    const auto read = read_captions({.path = (folder / "set").string()});
    ASSERT_EQ(read.size(), 4U);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(read[i].captions, in_memory[i].captions);
      EXPECT_EQ(std::stoll(read[i].id), static_cast<std::int64_t>(i));
      EXPECT_EQ(read_image(read[i].file, ColorMode::kRgb).pixels,
                paint_scene(make_scene(5, static_cast<std::int64_t>(i)), {64, 64}).pixels);
    }
  }
}

TEST(GenerateCaptioning, TellsItsProgressToTheEndAndNeverGoesBack) {
  const test::TempDir folder;
  std::int64_t last = 0;
  generate_captioned_scenes({.out = folder / "set", .count = 810, .size = 32, .threads = 8},
                            [&](std::int64_t done, std::int64_t count) {
                              EXPECT_EQ(count, 810);
                              EXPECT_GE(done, last);
                              last = done;
                            });
  EXPECT_EQ(last, 810);
}

/// Threads with 1 GiB stacks in an address space that has room for three.
TEST(GenerateCaptioning, GoesOnWithTheThreadsThatTheMachineGives) {
  const auto wanted = generated({.count = 40, .seed = 7, .size = 32, .threads = 1});
  pthread_attr_t usual;
  pthread_attr_t large;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_getattr_default_np(&large), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&large, std::size_t{1} << 30), 0);
  ASSERT_EQ(pthread_setattr_default_np(&large), 0);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit tight = before;
  tight.rlim_cur = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + (std::size_t{7} << 29);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  const auto given = generated({.count = 40, .seed = 7, .size = 32, .threads = 16});
  EXPECT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(pthread_setattr_default_np(&usual), 0);
  EXPECT_EQ(given, wanted);
}

TEST(GenerateCaptioning, RefusesWhatCannotBe) {
  const test::TempDir folder;
  const auto fault = [&](const GenerateOptions& options) {
    return fault_of<UsageError>([&] { generate_captioned_scenes(options); });
  };
  EXPECT_EQ(fault({.out = folder / "a", .count = 0}), "generate captioning: count is 0, must be 1 .. 1000000");
  EXPECT_EQ(fault({.out = folder / "a", .count = 1, .size = 31}),
            "generate captioning: size is 31, must be 32 .. 4096");
  std::ofstream(folder / "notes.txt") << "mine";
  EXPECT_THAT(fault({.out = folder.path(), .count = 1}), HasSubstr("is not empty: it holds notes.txt"));
  EXPECT_THAT(fault({.out = folder / "notes.txt", .count = 1}), HasSubstr("notes.txt is not a folder"));
  EXPECT_THAT(fault_of<UsageError>([] { (void)parse_caption_format("cocos"); }), HasSubstr("did you mean 'coco'"));
  EXPECT_EQ(parse_caption_format("coco"), CaptionFormat::kCoco);
  EXPECT_EQ(parse_caption_format("text"), CaptionFormat::kText);
}

}  // namespace captioning_generate_test
}  // namespace lockstep::captioning
