// SPDX-License-Identifier: Apache-2.0
// Pictures that a camera stored lying on a side: each is read as a viewer shows it, unless its annotations are of the
// pixels as they are stored.
#include <array>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "data/sources/archives/tar_parse.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/image_folder.h"
#include "lockstep/data/png_writer.h"
#include "lockstep/data/sources/coco.h"
#include "lockstep/data/sources/mask_folders.h"
#include "lockstep/data/sources/pack.h"
#include "lockstep/data/sources/packed.h"
#include "lockstep/data/sources/tar_shards.h"
#include "lockstep/data/sources/voc.h"
#include "lockstep/data/survey.h"
#include "support/exif.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace exif_test {

using test::with_exif_orientation;
using ::testing::ElementsAre;

namespace fs = std::filesystem;

const fs::path kGolden = fs::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data/golden";

constexpr ImageSize kStored{93, 75};
constexpr ImageSize kUpright{75, 93};

std::string lying(int orientation = 6) {
  return with_exif_orientation(FileSystem::system().read(kGolden / "part_444.jpg"), orientation);
}

void put(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

Image decoded(const std::string& bytes, ColorMode mode = ColorMode::kRgb) {
  Result<Image> image = decode_image(bytes, mode);
  EXPECT_TRUE(image.ok()) << image.error();
  return image ? std::move(image).value() : Image{};
}

std::array<std::uint8_t, 3> pixel(const Image& image, std::int64_t x, std::int64_t y) {
  std::array<std::uint8_t, 3> found{};
  std::copy_n(image.pixels.begin() + (y * image.size.width + x) * 3, 3, found.begin());
  return found;
}

/// Upper left, upper right, lower left, lower right.
std::array<std::array<std::uint8_t, 3>, 4> corners(const Image& image) {
  const std::int64_t right = image.size.width - 1;
  const std::int64_t bottom = image.size.height - 1;
  return {pixel(image, 0, 0), pixel(image, right, 0), pixel(image, 0, bottom), pixel(image, right, bottom)};
}

Image part_of(const Image& image, const Region& region) {
  Image part{region.size, image.channels, {}};
  for (std::int64_t y = region.top; y < region.top + region.size.height; ++y) {
    const auto row = image.pixels.begin() + (y * image.size.width + region.left) * image.channels;
    part.pixels.insert(part.pixels.end(), row, row + region.size.width * image.channels);
  }
  return part;
}

// By EXIF 2.3, 4.6.4 A: which corner of the stored picture (0 upper left .. 3 lower right) becomes which of the
// upright.
TEST(Exif, EachOrientationPutsTheCornersWhereTheStandardSays) {
  constexpr std::array<std::array<std::size_t, 4>, 8> kCorners{
      {{0, 1, 2, 3}, {1, 0, 3, 2}, {3, 2, 1, 0}, {2, 3, 0, 1}, {0, 2, 1, 3}, {2, 0, 3, 1}, {3, 1, 2, 0}, {1, 3, 0, 2}}};
  const auto stored = corners(decoded(FileSystem::system().read(kGolden / "part_444.jpg")));
  for (int orientation = 1; orientation <= 8; ++orientation) {
    for (const bool big_endian : {false, true}) {
      const std::string bytes =
          with_exif_orientation(FileSystem::system().read(kGolden / "part_444.jpg"), orientation, big_endian);
      const Image image = decoded(bytes);
      EXPECT_EQ(image.size, orientation < 5 ? kStored : kUpright) << orientation;
      EXPECT_EQ(image_size(bytes).value(), image.size) << orientation;
      const auto upright = corners(image);
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(upright[i], stored[kCorners[static_cast<std::size_t>(orientation - 1)][i]])
            << orientation << " " << i;
      }
    }
  }
}

TEST(Exif, GrayPicturesAndFilesOfAFolderAreTurnedAlike) {
  const test::TempDir folder;
  put(folder / "a.jpg", lying(8));
  EXPECT_EQ(read_image(folder / "a.jpg", ColorMode::kGray).size, kUpright);
  EXPECT_EQ(ImageFolder(folder.path(), {}).image_size(), kUpright);
}

TEST(Exif, ACropIsThatOfTheUprightPictureWithItsBits) {
  const Region region{10, 20, {31, 27}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::string bytes = lying(orientation);
    Pixels pixels = EncodedImage{nullptr, bytes, "a.jpg"};
    const Box where = pixels.crop(region, region.size);
    const auto left = static_cast<std::int64_t>(where.x1);
    const auto top = static_cast<std::int64_t>(where.y1);
    EXPECT_EQ(where.width(), 31.0F) << orientation;
    EXPECT_EQ(where.height(), 27.0F) << orientation;
    EXPECT_EQ(part_of(pixels.decoded(), {left, top, region.size}).pixels, part_of(decoded(bytes), region).pixels)
        << orientation;
  }
}

/// How much a crop that was decoded four times smaller differs from the means of the whole picture there.
double difference(const Image& small, const Box& where, const Image& whole, const Region& region) {
  double off = 0;
  for (std::int64_t y = 0; y < region.size.height / 4; ++y) {
    for (std::int64_t x = 0; x < region.size.width / 4; ++x) {
      double mean = 0;
      for (std::int64_t i = 0; i < 16; ++i) {
        mean += pixel(whole, region.left + 4 * x + i % 4, region.top + 4 * y + i / 4)[0] / 16.0;
      }
      off += std::abs(mean - pixel(small, std::lround(where.x1) + x, std::lround(where.y1) + y)[0]);
    }
  }
  return off;
}

TEST(Exif, ACropThatIsDecodedSmallerLiesWhereItSays) {
  const Region region{8, 32, {48, 40}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::string bytes = lying(orientation);
    Pixels pixels = EncodedImage{nullptr, bytes, "a.jpg"};
    const Box where = pixels.crop(region, {12, 10});
    EXPECT_NEAR(where.width(), 12, 0.01) << orientation;
    EXPECT_NEAR(where.height(), 10, 0.01) << orientation;
    const double off = difference(pixels.decoded(), where, decoded(bytes), region);
    for (int other = 1; other <= 8; ++other) {
      if (other == orientation) continue;
      EXPECT_LT(off, difference(pixels.decoded(), where, decoded(lying(other)), region)) << orientation << " " << other;
    }
  }
}

TEST(Exif, ATagThatSaysNothingLeavesThePictureAsItIs) {
  const std::string plain = FileSystem::system().read(kGolden / "part_444.jpg");
  const std::vector<std::uint8_t> pixels = decoded(plain).pixels;
  for (const int number : {0, 1, 9, 255}) EXPECT_EQ(decoded(with_exif_orientation(plain, number)).pixels, pixels);
  const std::string good = lying();
  const std::size_t tag = good.find("Exif");
  for (std::size_t length = 0; length < 28; ++length) {  // whatever is torn in it, nothing is read beyond its end
    std::string torn = good.substr(0, tag + length) + good.substr(tag + 32);
    torn[5] = static_cast<char>(2 + length);
    EXPECT_EQ(decoded(torn).pixels, pixels) << length;
  }
}

/// A folder with a picture that lies, and annotations of a size.
class LyingSet : public ::testing::Test {
 protected:
  void masks_of(ImageSize size) {
    put(folder_ / "images/a.jpg", lying());
    const Image mask{size, 1, std::vector<std::uint8_t>(static_cast<std::size_t>(size.width * size.height), 1)};
    put(folder_ / "masks/a.png", encode_png(view_of(mask)));
  }
  void voc_of(ImageSize size) {
    put(folder_ / "a.jpg", lying());
    put(folder_ / "a.xml", "<annotation><size><width>" + std::to_string(size.width) + "</width><height>" +
                               std::to_string(size.height) +
                               "</height></size><object><name>cat</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>9"
                               "</xmax><ymax>8</ymax></bndbox></object></annotation>");
  }
  void coco_of(ImageSize size) {
    put(folder_ / "a.jpg", lying());
    put(folder_ / "annotations.json",
        R"({"categories": [{"id": 1, "name": "cat"}], "images": [{"id": 1, "file_name": "a.jpg", "width": )" +
            std::to_string(size.width) + R"(, "height": )" + std::to_string(size.height) +
            R"(}], "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 8, 6],
                "segmentation": [[1, 2, 9, 2, 9, 8]], "area": 24, "iscrowd": 0}]})");
  }

  const test::TempDir folder_;
};

TEST_F(LyingSet, MasksOfTheUprightSizeHaveAnUprightPicture) {
  masks_of(kUpright);
  AnnotatedImage picture = MaskFolders(folder_ / "images", folder_ / "masks").get(0);
  EXPECT_EQ(picture.pixels.size(), kUpright);
  EXPECT_EQ(picture.pixels.decoded().pixels, decoded(lying()).pixels);
}

TEST_F(LyingSet, IsCountedByWhatBecameOfItsPictures) {
  masks_of(kUpright);
  Survey survey = survey_source(MaskFolders(folder_ / "images", folder_ / "masks"));
  EXPECT_EQ(survey.turned, 1);
  EXPECT_EQ(survey.odd, 0) << "it is as whole as any";
  masks_of(kStored);
  survey = survey_source(MaskFolders(folder_ / "images", folder_ / "masks"));
  EXPECT_EQ(survey.turned, 0);
  EXPECT_EQ(survey.as_stored, 1);
  EXPECT_THAT(survey.sizes, ElementsAre(kStored));
}

TEST_F(LyingSet, MasksOfTheStoredSizeHaveThePictureAsItIsStored) {
  masks_of(kStored);
  const MaskFolders set(folder_ / "images", folder_ / "masks");
  const std::vector<std::uint8_t> stored = decoded(FileSystem::system().read(kGolden / "part_444.jpg")).pixels;
  EXPECT_EQ(set.get(0).pixels.size(), kStored);
  EXPECT_EQ(set.get(0).pixels.decoded().pixels, stored);
  AnnotatedImage cropped = set.get(0);
  (void)cropped.pixels.crop({0, 0, kStored}, kStored);
  EXPECT_EQ(cropped.pixels.decoded().pixels, stored);
}

TEST_F(LyingSet, BoxesOfVocAndCocoHaveThePictureOfTheSizeThatTheyState) {
  for (const ImageSize size : {kUpright, kStored}) {
    voc_of(size);
    EXPECT_EQ(VocImages(folder_.path()).get(0).pixels.size(), size);
    coco_of(size);
    for (const bool masks : {false, true}) {
      EXPECT_EQ(CocoImages(folder_ / "annotations.json", {.masks = masks}).get(0).pixels.size(), size);
    }
  }
}

TEST_F(LyingSet, MapsOfAShardHaveThePictureOfTheirSize) {
  for (const ImageSize size : {kUpright, kStored}) {
    const Image map{size, 1, std::vector<std::uint8_t>(static_cast<std::size_t>(size.width * size.height), 1)};
    put(folder_ / "a.tar", data::tar_member("x.jpg", lying()) +
                               data::tar_member("x.seg.png", encode_png(view_of(map))) + std::string(1024, '\0'));
    EXPECT_EQ(TarShards((folder_ / "a.tar").string()).get(0).pixels.size(), size);
    TarStream stream((folder_ / "a.tar").string());
    EXPECT_EQ(stream.next()->pixels.size(), size);
  }
}

TEST_F(LyingSet, IsPackedAsItWasRead) {
  for (const ImageSize size : {kUpright, kStored}) {
    masks_of(size);
    const MaskFolders set(folder_ / "images", folder_ / "masks");
    const std::vector<std::uint8_t> pixels = set.get(0).pixels.decoded().pixels;
    (void)pack_images(set, {.out = folder_ / "set.tar", .format = PackFormat::kTar, .workers = 1});
    EXPECT_EQ(TarShards((folder_ / "set.tar").string()).get(0).pixels.decoded().pixels, pixels);
    for (const bool encoded : {false, true}) {
      (void)pack_images(set, {.out = folder_ / "set.pack", .packed = {.encoded = encoded}, .workers = 1});
      AnnotatedImage packed = PackedImages(folder_ / "set.pack").get(0);
      EXPECT_EQ(packed.pixels.size(), size) << encoded;
      EXPECT_EQ(packed.pixels.decoded().pixels, pixels) << encoded;
    }
  }
}

}  // namespace exif_test
}  // namespace lockstep
