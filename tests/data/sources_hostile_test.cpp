// SPDX-License-Identifier: Apache-2.0
// Data that a stranger wrote: names that lead out of the folder, special files, numbers no picture has.
#include <fmt/format.h>
#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "data/sources/annotations/coco_json.h"
#include "data/sources/annotations/list_parse.h"
#include "data/sources/annotations/voc_parse.h"
#include "data/sources/archives/tar_marks_json.h"
#include "data/sources/archives/tar_parse.h"
#include "data/sources/files/numbers.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/sources/inside.h"
#include "lockstep/data/sources/open_source.h"
#include "lockstep/data/sources/packed.h"
#include "lockstep/data/sources/tar_shards.h"
#include "support/fault_of.h"
#include "support/fuzz_seeds.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace sources_hostile_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using test::fault_of;

namespace fs = std::filesystem;

const fs::path kTests = fs::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data";
const fs::path kSeeds = test::fuzz_seeds();

void put(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

std::string read(const fs::path& file) { return FileSystem::system().read(file); }

TEST(NameInside, LeavesPlainNamesAloneAndTakesDotsOut) {
  EXPECT_EQ(name_inside("data", "a/b.png", "list.csv", false), "a/b.png");
  EXPECT_EQ(name_inside("data", "a..b.png", "list.csv", false), "a..b.png");
  EXPECT_EQ(name_inside("data", "a/../b.png", "list.csv", false), "b.png");
  EXPECT_EQ(name_inside("", "./a/./../b.png", "list.csv", false), "b.png");
  EXPECT_EQ(name_inside("data/", fs::absolute("data/x/../b.png").string(), "list.csv", false),
            fs::absolute("data/b.png").string());
}

TEST(NameInside, RefusesWhatLeadsOutUnlessItMay) {
  for (const std::string name : {"../b.png", "a/../../b.png", "..", "/etc/passwd", "a/../../data/b.png"}) {
    EXPECT_THAT(fault_of<DataError>([&] { (void)name_inside("data", name, "list.csv", false); }),
                AllOf(StartsWith("list.csv names '" + name + "', which lies outside of data"),
                      HasSubstr("data.allow_outside=true")));
    EXPECT_EQ(name_inside("data", name, "list.csv", true), name);
  }
  const std::string beside = fs::absolute("data-other/b.png").string();
  EXPECT_THAT(fault_of<DataError>([&] { (void)name_inside("data", beside, "list.csv", false); }), HasSubstr("outside"));
}

// open(2) would end the name there.
TEST(NameInside, RefusesAZeroByte) {
  const std::string name("../x\0/../data/b.png", 19);
  EXPECT_THAT(fault_of<DataError>([&] { (void)name_inside("data", name, "list.csv", true); }), HasSubstr("zero byte"));
}

TEST(NameInside, TakesTheRealNameOfAFolderThatWasNamedByALink) {
  const test::TempDir root;
  fs::create_directory(root / "real");
  fs::create_directory_symlink("real", root / "link");
  const std::string file = (fs::canonical(root / "real") / "b.png").string();
  EXPECT_EQ(name_inside(root / "link", file, "list.csv", false), file);
}

/// A folder "data" with a picture, and a secret beside it.
class HostileNames : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"secret.png", "secret.jpg", "data/good.png", "voc/JPEGImages/good.png"}) {
      fs::create_directories((root_ / name).parent_path());
      fs::copy_file(kTests / "golden/rgb.png", root_ / name);
    }
    put(root_ / "secret.xml", "<annotation></annotation>");
  }

  /// What opening says; "open" where it does not complain.
  std::string opened(const fs::path& path, SourceKind kind, bool allow_outside = false) const {
    try {
      const auto source = open_source({.path = (root_ / path).string(), .kind = kind, .allow_outside = allow_outside});
      (void)source->get(0).pixels.size();
      return "open";
    } catch (const DataError& fault) {
      return fault.message();
    }
  }

  test::TempDir root_;
};

TEST_F(HostileNames, OfListsAndCocoStayInTheFolder) {
  for (const std::string& name : {std::string("../secret.png"), (root_ / "secret.png").string()}) {
    put(root_ / "data/list.csv", "path\n" + name + "\n");
    put(root_ / "data/list.jsonl", fmt::format(R"({{"path": "{}"}})", name));
    put(root_ / "data/coco.json",
        fmt::format(R"({{"images": [{{"id": 1, "file_name": "{}"}}], "annotations": [], "categories": []}})", name));
    for (const auto& [file, kind] : {std::pair("data/list.csv", SourceKind::kList),
                                     {"data/list.jsonl", SourceKind::kList},
                                     {"data/coco.json", SourceKind::kCoco}}) {
      EXPECT_THAT(opened(file, kind), AllOf(HasSubstr(file), HasSubstr("outside"))) << name;
      EXPECT_EQ(opened(file, kind, true), "open") << file << " " << name;
    }
  }
  put(root_ / "data/list.csv", fmt::format("path\nx/../good.png\n{}\n", (root_ / "data/good.png").string()));
  EXPECT_EQ(opened("data/list.csv", SourceKind::kList), "open");
}

TEST_F(HostileNames, OfVocAndOfListsOfMasksStayInTheFolder) {
  fs::create_directories(root_ / "voc/Annotations");
  put(root_ / "voc/ImageSets/Main/trainval.txt", "../../secret\n");
  EXPECT_THAT(opened("voc", SourceKind::kVoc), AllOf(HasSubstr("trainval.txt"), HasSubstr("outside")));
  EXPECT_EQ(opened("voc", SourceKind::kVoc, true), "open");
  fs::create_directories(root_ / "voc/SegmentationClass");
  put(root_ / "voc/ImageSets/Segmentation/trainval.txt", "../../secret\n");
  EXPECT_THAT(fault_of<DataError>([&] {
                (void)open_source({.path = (root_ / "voc").string(), .kind = SourceKind::kMasks, .split = "trainval"});
              }),
              AllOf(HasSubstr("trainval.txt"), HasSubstr("outside")));
}

TEST_F(HostileNames, ALinkInTheFolderIsItsOwnersChoice) {
  fs::create_symlink(root_ / "secret.png", root_ / "data/link.png");
  put(root_ / "data/list.csv", "path\nlink.png\n");
  EXPECT_EQ(opened("data/list.csv", SourceKind::kList), "open");
}

TEST_F(HostileNames, OfPipesAreRefusedAtOnceWhateverTheyStandFor) {
  ASSERT_EQ(::mkfifo((root_ / "data/fifo").c_str(), 0644), 0);
  put(root_ / "data/list.csv", "path\nfifo\n");
  EXPECT_THAT(opened("data/list.csv", SourceKind::kList), HasSubstr("data/fifo is a named pipe, not a regular file"));
  for (const SourceKind kind : {SourceKind::kList, SourceKind::kCoco, SourceKind::kTar, SourceKind::kPacked,
                                SourceKind::kIdx, SourceKind::kAuto}) {
    EXPECT_THAT(opened("data/fifo", kind), HasSubstr("data/fifo is a named pipe, not a regular file"))
        << static_cast<int>(kind);
  }
  EXPECT_THAT(fault_of<DataError>([&] { TarStream((root_ / "data/fifo").string()); }), HasSubstr("is a named pipe"));
}

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
  const auto coco = [](const char* file) { return data::parse_coco(read(kSeeds / file), {}).error(); };
  EXPECT_EQ(coco("coco/hostile/far_keypoint.json"), "annotations[0]: a keypoint with the number 1e+308");
  EXPECT_EQ(coco("coco/hostile/far_corner.json"), "annotations[0]: a box of [1000000, 0, 1000000, 4]");
  EXPECT_THAT(data::parse_voc(read(kSeeds / "voc/hostile/far_box.xml")).error(), HasSubstr("to (1e+308, 2)"));
  EXPECT_THAT(data::parse_voc(read(kSeeds / "voc/hostile/near_box.xml")).error(), HasSubstr("from (1, -1e+308)"));
  const auto list = [](const char* file) { return data::parse_json_list(read(kSeeds / file)).error(); };
  EXPECT_EQ(list("lists/hostile/far_box.jsonl"), "line 1: a box of [0,0,1e+308,1]");
  EXPECT_EQ(list("lists/hostile/far_value.jsonl"), "line 1: a value of 1e+39");
}

TEST(HostileNumbers, OfTarShardsAreRefusedByName) {
  const auto fault = [](const char* file) {
    const TarShards shards((kSeeds / file).string());
    return fault_of<DataError>([&] { (void)shards.get(0); });
  };
  EXPECT_THAT(fault("tar/hostile/far_box.tar"), HasSubstr("a box of [0,0,1e+308,1]"));
  EXPECT_THAT(fault("tar/hostile/far_point.tar"), HasSubstr("a point of [1e+39,0,1]"));
  EXPECT_THAT(fault("tar/hostile/far_area.tar"), HasSubstr("an area of 1e+308 pixels"));
  EXPECT_THAT(fault("tar/hostile/far_value.tar"), HasSubstr("a value of -1e+308"));
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
