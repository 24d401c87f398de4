// SPDX-License-Identifier: Apache-2.0
// Data that a stranger wrote: numbers no picture has.

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "data/sources/coco_json.h"
#include "data/sources/list_parse.h"
#include "data/sources/numbers.h"
#include "data/sources/tar_marks_json.h"
#include "data/sources/tar_parse.h"
#include "data/sources/voc_parse.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/sources/packed.h"
#include "lockstep/data/sources/tar_shards.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace sources_hostile_test {

using ::testing::HasSubstr;

using test::fault_of;

namespace fs = std::filesystem;

const fs::path kTests = fs::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data";
const fs::path kHostile = kTests / "fuzz_hostile";

std::string read(const fs::path& file) { return FileSystem::system().read(file); }

TEST(HostileNumbers, AreNoCoordinatesAreasOrFloats) {
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double value : {1e308, -1e308, infinite, -infinite, std::nan("")}) {
    EXPECT_FALSE(data::is_coordinate(value)) << value;
    EXPECT_FALSE(data::is_area(value)) << value;
    EXPECT_FALSE(data::fits_float(value)) << value;
  }
  EXPECT_TRUE(data::is_coordinate(-1e6));
  EXPECT_FALSE(data::is_coordinate(1e6 + 1));
  EXPECT_FALSE(data::is_area(-1));
  EXPECT_TRUE(data::fits_float(3.4e38));
}

TEST(HostileNumbers, OfAnnotationsAreRefusedByName) {
  const auto coco = [](const char* file) { return data::parse_coco(read(kHostile / file), {}).error(); };
  EXPECT_EQ(coco("coco/far_keypoint.json"), "annotations[0]: a keypoint with the number 1e+308");
  EXPECT_EQ(coco("coco/far_corner.json"), "annotations[0]: a box of [1000000, 0, 1000000, 4]");
  EXPECT_THAT(data::parse_voc(read(kHostile / "voc/far_box.xml")).error(), HasSubstr("to (1e+308, 2)"));
  EXPECT_THAT(data::parse_voc(read(kHostile / "voc/near_box.xml")).error(), HasSubstr("from (1, -1e+308)"));
  const auto list = [](const char* file) { return data::parse_json_list(read(kHostile / file)).error(); };
  EXPECT_EQ(list("lists/far_box.jsonl"), "line 1: a box of [0,0,1e+308,1]");
  EXPECT_EQ(list("lists/far_value.jsonl"), "line 1: a value of 1e+39");
}

TEST(HostileNumbers, OfTarShardsAreRefusedByName) {
  const auto fault = [](const char* file) {
    const TarShards shards((kHostile / file).string());
    return fault_of<DataError>([&] { (void)shards.get(0); });
  };
  EXPECT_THAT(fault("tar/far_box.tar"), HasSubstr("a box of [0,0,1e+308,1]"));
  EXPECT_THAT(fault("tar/far_point.tar"), HasSubstr("a point of [1e+39,0,1]"));
  EXPECT_THAT(fault("tar/far_area.tar"), HasSubstr("an area of 1e+308 pixels"));
  EXPECT_THAT(fault("tar/far_value.tar"), HasSubstr("a value of -1e+308"));
}

TEST(HostileNumbers, AreNotPacked) {
  const test::TempDir folder;
  PackedWriter writer(folder / "a.pack", {});
  AnnotatedImage picture;
  picture.pixels = Image{{1, 1}, 1, {0}};
  picture.name = "a.png";
  picture.objects.emplace_back();
  picture.objects.back().box.x2 = std::numeric_limits<float>::infinity();
  EXPECT_EQ(fault_of<DataError>([&] { (void)writer.prepare(std::move(picture)); }),
            "an object of a.png has a box of [0, 0, inf, 0]");
}

}  // namespace sources_hostile_test
}  // namespace lockstep
