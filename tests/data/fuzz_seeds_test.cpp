// SPDX-License-Identifier: Apache-2.0
// The fuzzer's functions over its seeds, and over each seed cut short and changed: what scripts/trials/fuzz does at
// length.
#include <filesystem>

#include <gtest/gtest.h>
#include "data/sources/annotations/coco_json.h"
#include "data/sources/annotations/list_parse.h"
#include "data/sources/annotations/voc_parse.h"
#include "data/sources/archives/tar_parse.h"
#include "data/sources/idx/idx_parse.h"
#include "data/sources/packed/packed_parse.h"
#include "fuzz/targets.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/sample_random.h"

namespace lockstep {
namespace fuzz_seeds_test {

namespace fs = std::filesystem;

const fs::path kData = fs::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data";

std::vector<std::string> seeds_in(const fs::path& folder) {
  std::vector<std::string> seeds;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".py") seeds.push_back(FileSystem::system().read(entry.path()));
  }
  EXPECT_FALSE(seeds.empty());
  return seeds;
}

// Each seed as it is, cut at 40 places, and with 1 to 8 changed bytes 100 times.
void run(const fs::path& folder, void (*target)(std::string_view)) {
  SampleRandom random(1);
  for (const std::string& seed : seeds_in(folder)) {
    target(seed);
    for (std::size_t i = 0; i < 40; ++i) target(std::string_view(seed).substr(0, seed.size() * i / 40));
    for (int i = 0; i < 100; ++i) {
      std::string changed = seed;
      for (std::int64_t n = random.between(1, 8); n > 0; --n)
        changed[random.below(changed.size())] = static_cast<char>(random());
      target(changed);
    }
  }
}

TEST(FuzzSeeds, AreReadOrRefusedWhateverChanges) {
  run(kData / "golden", fuzz::images);
  run(kData / "fuzz_seeds/png_rows", fuzz::png_rows);
  run(kData / "fuzz_seeds/tar", fuzz::tar);
  run(kData / "fuzz_seeds/idx", fuzz::idx);
  run(kData / "fuzz_seeds/voc", fuzz::voc);
  run(kData / "fuzz_seeds/coco", fuzz::coco);
  run(kData / "fuzz_seeds/lists", fuzz::lists);
  run(kData / "fuzz_seeds/packed", fuzz::packed);
}

// What attacked once is a seed of the fuzzer, too.
TEST(FuzzSeeds, OfAttacksAreReadOrRefusedWhateverChanges) {
  run(kData / "fuzz_hostile/images", fuzz::images);
  run(kData / "fuzz_hostile/tar", fuzz::tar);
  run(kData / "fuzz_hostile/voc", fuzz::voc);
  run(kData / "fuzz_hostile/coco", fuzz::coco);
  run(kData / "fuzz_hostile/lists", fuzz::lists);
}

// Otherwise the fuzzer would never get past the first check.
TEST(FuzzSeeds, AreGoodAsTheyAre) {
  for (const std::string& seed : seeds_in(kData / "fuzz_seeds/tar")) EXPECT_TRUE(data::parse_tar(seed).ok());
  for (const std::string& seed : seeds_in(kData / "fuzz_seeds/idx")) EXPECT_TRUE(data::parse_idx(seed).ok());
  for (const std::string& seed : seeds_in(kData / "fuzz_seeds/voc")) EXPECT_TRUE(data::parse_voc(seed).ok());
  for (const std::string& seed : seeds_in(kData / "fuzz_seeds/coco")) {
    const auto coco = data::parse_coco(seed, {.masks = true});
    ASSERT_TRUE(coco.ok()) << coco.error();
    for (const data::CocoOutline& outline : coco->images[0].outlines) {
      const auto mask = data::draw_outline(outline, coco->images[0].size);
      EXPECT_TRUE(mask.ok()) << mask.error();
    }
  }
  for (const std::string& seed : seeds_in(kData / "fuzz_seeds/lists")) {
    EXPECT_TRUE(data::parse_csv_list(seed).ok() || data::parse_json_list(seed).ok()) << seed;
  }
  for (const std::string& seed : seeds_in(kData / "fuzz_seeds/packed")) {
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

}  // namespace fuzz_seeds_test
}  // namespace lockstep
