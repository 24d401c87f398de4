// SPDX-License-Identifier: Apache-2.0
// What a name says: endings in any case of letters, and names that begin with a dot, which programs leave behind.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "lockstep/base/file_system.h"
#include "lockstep/data/image_folder.h"
#include "lockstep/data/png_writer.h"
#include "lockstep/data/sources/image_files.h"
#include "lockstep/data/sources/mask_folders.h"
#include "lockstep/data/sources/open_source.h"
#include "lockstep/data/sources/tar_shards.h"
#include "lockstep/data/sources/voc.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace sources_names_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

const std::string kPicture = encode_png(view_of(Image{{2, 1}, 1, {0, 1}}));
const std::string kXml =
    "<annotation><object><name>cat</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox>"
    "</object></annotation>";

void put(const fs::path& file, const std::string& bytes) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << bytes;
}

class Names : public ::testing::Test {
 protected:
  const test::TempDir folder_;
};

TEST_F(Names, OfMasksAndTheirPicturesEndInAnyCase) {
  for (const char* ending : {".png", ".PNG", ".Png", ".jpg", ".JPG", ".Jpg", ".jpeg", ".JPEG", ".JPeG"}) {
    for (const char* mask : {".png", ".PNG", ".pNg"}) {
      const fs::path set = folder_ / (std::string("set") + ending + mask);
      put(set / (std::string("images/a.b") + ending), kPicture);
      put(set / (std::string("masks/a.b") + mask), kPicture);
      put(set / "list.txt", "a.b\n");
      EXPECT_EQ(open_source({.path = set.string()})->get(0).maps.size(), 1U) << set;
      const MaskFolders listed(set / "images", set / "masks", {.list = set / "list.txt"});
      EXPECT_EQ(listed.get(0).maps.size(), 1U) << set;
    }
  }
}

TEST_F(Names, OfVocEndInAnyCase) {
  for (const char* ending : {".jpg", ".JPG", ".Jpeg", ".pnG"}) {
    for (const char* xml : {".xml", ".XML", ".Xml"}) {
      const fs::path set = folder_ / (std::string("set") + ending + xml);
      put(set / (std::string("JPEGImages/a") + ending), kPicture);
      put(set / (std::string("Annotations/a") + xml), kXml);
      EXPECT_EQ(VocImages(set).get(0).objects.size(), 1U) << set;
      put(set / "ImageSets/Main/trainval.txt", "a\n");
      EXPECT_EQ(VocImages(set).get(0).objects.size(), 1U) << set << " by its list";
    }
  }
}

TEST_F(Names, OfOtherSourcesEndInAnyCase) {
  put(folder_ / "classes/cat/a.PNG", kPicture);
  EXPECT_EQ(detect_source((folder_ / "classes").string()), SourceKind::kClasses);
  put(folder_ / "list/a.PNG", kPicture);
  put(folder_ / "list/all.CSV", "path,label\na.PNG,cat\n");
  EXPECT_EQ(open_source({.path = (folder_ / "list/all.CSV").string()})->get(0).label, 0);
  fs::create_directory(folder_ / "shards");
  TarWriter writer(folder_ / "shards/a.TAR");
  writer.add({.pixels = Image{{2, 1}, 1, {0, 1}}});
  writer.finish();
  EXPECT_EQ(open_source({.path = (folder_ / "shards").string()})->size(), 1);
}

TEST_F(Names, ThatBeginWithADotAreNoClass) {
  put(folder_ / "cat/a.png", kPicture);
  put(folder_ / "dog/b.png", kPicture);
  put(folder_ / ".ipynb_checkpoints/a-checkpoint.png", kPicture);
  put(folder_ / "cat/.ipynb_checkpoints/a-checkpoint.png", kPicture);
  put(folder_ / ".git/x", "");
  const auto source = open_source({.path = folder_.path().string()});
  EXPECT_THAT(source->class_names(), ElementsAre("cat", "dog"));
  EXPECT_EQ(source->size(), 2);
}

TEST_F(Names, ThatBeginWithADotAreNoSplit) {
  put(folder_ / "train/a.png", kPicture);
  put(folder_ / "test/b.png", kPicture);
  put(folder_ / ".ipynb_checkpoints/a-checkpoint.png", kPicture);
  EXPECT_THAT(split_folders(folder_.path().string()), ElementsAre("test", "train"));
}

TEST_F(Names, ThatBeginWithADotAreNoImageNoMaskAndNoAnnotation) {
  put(folder_ / "files/a.png", kPicture);
  put(folder_ / "files/._a.png", "what macOS leaves beside a file");
  EXPECT_EQ(list_files(folder_ / "files").paths.size(), 1U);
  EXPECT_EQ(ImageFiles(folder_ / "files").size(), 1);
  EXPECT_EQ(ImageFiles(folder_ / "files", {.recursive = true}).size(), 1);
  put(folder_ / "masked/images/a.png", kPicture);
  put(folder_ / "masked/masks/a.png", kPicture);
  put(folder_ / "masked/masks/._a.png", "x");
  EXPECT_EQ(open_source({.path = (folder_ / "masked").string()})->size(), 1);
  put(folder_ / "voc/JPEGImages/a.png", kPicture);
  put(folder_ / "voc/Annotations/a.xml", kXml);
  put(folder_ / "voc/Annotations/._a.xml", "x");
  EXPECT_EQ(VocImages(folder_ / "voc").size(), 1);
}

TEST_F(Names, OfAFolderThatWasNamedMayBeginWithADot) {
  put(folder_ / ".cache/set/cat/a.png", kPicture);
  EXPECT_EQ(open_source({.path = (folder_ / ".cache/set").string()})->size(), 1);
  EXPECT_EQ(ImageFiles(folder_ / ".cache", {.recursive = true}).size(), 1);
}

}  // namespace sources_names_test
}  // namespace lockstep
