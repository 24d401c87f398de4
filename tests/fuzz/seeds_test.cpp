// SPDX-License-Identifier: Apache-2.0
// Runs the fuzzer's functions on whole, truncated and modified seeds: a short version of scripts/trials/fuzz.
#include "fuzz/targets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/formats/safetensors_header.h"
#include "checkpoint/torch/pickle_parse.h"
#include "checkpoint/torch/zip_parse.h"
#include "data/sources/annotations/coco_json.h"
#include "data/sources/annotations/list_parse.h"
#include "data/sources/annotations/voc_parse.h"
#include "data/sources/archives/tar_parse.h"
#include "data/sources/idx/idx_parse.h"
#include "data/sources/packed/packed_parse.h"
#include "lockstep/base/config.h"
#include "lockstep/base/file_system.h"
#include "support/fuzz_seeds.h"

namespace lockstep::fuzz {
namespace {

namespace fs = std::filesystem;

const fs::path kSeeds = test::fuzz_seeds();
const fs::path kPictures = LOCKSTEP_TEST_SOURCE_DIR "/tests/data/golden";

struct Target {
  const char* name;
  void (*function)(std::string_view);
};

constexpr Target kTargets[] = {
#include "targets.inc"  // from fuzz/targets.txt
};

/// The files directly in `folder`: the subfolder TARGET/hostile has past attacks.
std::vector<std::string> seeds_in(const fs::path& folder) {
  std::vector<fs::path> files;
  if (fs::exists(folder)) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.is_regular_file() && entry.path().extension() != ".py") files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  std::vector<std::string> seeds;
  for (const fs::path& file : files) seeds.push_back(FileSystem::system().read(file));
  return seeds;
}

std::vector<std::string> right_seeds_of(const std::string& target) {
  const std::vector<std::string> seeds = seeds_in(kSeeds / target);
  EXPECT_FALSE(seeds.empty()) << target;
  return seeds;
}

std::vector<std::string> all_seeds_of(const std::string& target) {
  std::vector<std::string> seeds = seeds_in(kSeeds / target);
  std::ranges::move(seeds_in(kSeeds / target / "hostile"), std::back_inserter(seeds));
  if (target == "images") std::ranges::move(seeds_in(kPictures), std::back_inserter(seeds));
  return seeds;
}

/// The seed as is, truncated, and with 1 to 8 bytes changed. A small seed is truncated at every position and changed
/// often; a large one less often, since it takes longer to read.
void run_over(const std::string& seed, const Target& target) {
  constexpr std::size_t kSmall = 1024;
  const std::size_t cuts = seed.size() <= kSmall ? seed.size() : 40;
  const int changes = seed.size() <= kSmall ? 300 : 100;
  target.function(seed);
  for (std::size_t i = 0; i < cuts; ++i) target.function(std::string_view(seed).substr(0, seed.size() * i / cuts));
  std::mt19937 random(1);
  for (int i = 0; i < changes && !seed.empty(); ++i) {
    std::string changed = seed;
    for (std::uint32_t n = 1 + random() % 8; n > 0; --n) {
      changed[random() % changed.size()] = static_cast<char>(random());
    }
    target.function(changed);
  }
}

class FuzzSeeds : public ::testing::TestWithParam<Target> {};

// A target that has no seed in the archive fails here.
TEST_P(FuzzSeeds, AreReadOrRefusedWhateverChanges) {
  const std::vector<std::string> seeds = all_seeds_of(GetParam().name);
  ASSERT_FALSE(seeds.empty()) << "fuzz/seeds.tar.xz has no seed of " << GetParam().name
                              << "; scripts/trials/fuzz --keep TARGET FILE adds one";
  for (const std::string& seed : seeds) run_over(seed, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzSeeds, ::testing::ValuesIn(kTargets),
                         [](const auto& target) { return std::string(target.param.name); });

TEST(FuzzSeedsArchive, HasNoSeedsOfATargetThatIsGone) {
  for (const auto& entry : fs::directory_iterator(kSeeds)) {
    const auto is_its_name = [&](const Target& target) { return entry.path().filename() == target.name; };
    EXPECT_TRUE(std::ranges::any_of(kTargets, is_its_name)) << entry.path();
  }
}

// If no seed were valid, the fuzzer would never get past the first check.
TEST(FuzzSeedsArchive, HasRightFilesOfDataSets) {
  for (const std::string& seed : right_seeds_of("tar")) EXPECT_TRUE(data::parse_tar(seed).ok());
  for (const std::string& seed : right_seeds_of("idx")) EXPECT_TRUE(data::parse_idx(seed).ok());
  for (const std::string& seed : right_seeds_of("voc")) EXPECT_TRUE(data::parse_voc(seed).ok());
  for (const std::string& seed : right_seeds_of("lists")) {
    EXPECT_TRUE(data::parse_csv_list(seed).ok() || data::parse_json_list(seed).ok()) << seed;
  }
}

TEST(FuzzSeedsArchive, HasARightCocoFileWithMasks) {
  for (const std::string& seed : right_seeds_of("coco")) {
    const auto coco = data::parse_coco(seed, {.masks = true});
    ASSERT_TRUE(coco.ok()) << coco.error();
    for (const data::CocoOutline& outline : coco->images[0].outlines) {
      const auto mask = data::draw_outline(outline, coco->images[0].size);
      EXPECT_TRUE(mask.ok()) << mask.error();
    }
  }
}

TEST(FuzzSeedsArchive, HasARightPackedFileWithMarks) {
  for (const std::string& seed : right_seeds_of("packed")) {
    const auto index = data::parse_packed(seed, data::PackedCheck::kLayout);
    ASSERT_TRUE(index.ok()) << index.error();
    for (std::int64_t i = 0; i < index->count; ++i) {
      const data::PackedEntry entry = index->entry(i);
      const auto marks =
          data::parse_packed_marks(std::string_view(seed).substr(entry.offset + entry.pixel_bytes, entry.marks_bytes),
                                   {entry.width, entry.height});
      EXPECT_TRUE(marks.ok()) << marks.error();
    }
  }
}

TEST(FuzzSeedsArchive, HasRightFilesOfCheckpoints) {
  for (const std::string& seed : right_seeds_of("zip")) EXPECT_TRUE(checkpoint::parse_zip(seed).ok());
  const auto is_refused = [](const std::string& seed) { return !checkpoint::parse_pickle(seed).ok(); };
  EXPECT_EQ(std::ranges::count_if(right_seeds_of("pickle"), is_refused), 2);  // attack.pkl, latin_key.pkl
  for (const std::string& seed : right_seeds_of("safetensors")) {
    EXPECT_TRUE(checkpoint::parse_safetensors_header(seed).ok());
  }
}

// All other seeds attack the YAML parser; the one with numbers attacks the code that uses the numbers.
TEST(FuzzSeedsArchive, HasSettingsAndNumbersThatAreYaml) {
  const auto is_yaml = [](const std::string& seed) { return yaml_problem(seed).empty(); };
  EXPECT_EQ(std::ranges::count_if(right_seeds_of("yaml"), is_yaml), 2);
}

// Seeds with a few changes get deep into the parser; random bytes do not.
TEST(WireFrames, OfTwentyThousandAtRandomNoneIsWrittenBesideItsRoom) {
  const std::vector<std::string> seeds = all_seeds_of("wire_frames");
  std::mt19937 random(1);
  for (int trial = 0; trial < 20'000; ++trial) {
    std::string frames = seeds[random() % seeds.size()];
    for (std::uint32_t n = random() % 4; n > 0; --n) frames[random() % frames.size()] = static_cast<char>(random());
    frames.resize(1 + random() % (2 * frames.size()), static_cast<char>(random()));
    wire_frames(frames);
  }
}

}  // namespace
}  // namespace lockstep::fuzz
