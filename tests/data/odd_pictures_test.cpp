// SPDX-License-Identifier: Apache-2.0
// Odd images: chunks, orientations, and damage.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spng.h>
#include <sys/resource.h>
#include <zlib.h>

#include <array>
#include <cstdlib>
#include <fstream>

#include "data/codec.h"
#include "data/sources/archives/tar_parse.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/image_folder.h"
#include "lockstep/data/picture.h"
#include "lockstep/data/png_writer.h"
#include "lockstep/data/sample_random.h"
#include "lockstep/data/sources/coco.h"
#include "lockstep/data/sources/image_files.h"
#include "lockstep/data/sources/mask_folders.h"
#include "lockstep/data/sources/pack.h"
#include "lockstep/data/sources/packed.h"
#include "lockstep/data/sources/tar_shards.h"
#include "lockstep/data/sources/voc.h"
#include "lockstep/data/survey.h"
#include "support/exif.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace odd_pictures_test {

namespace fs = std::filesystem;
using test::with_exif_orientation;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Odd images that other programs read: libjpeg warnings, shapes in the alpha channel, chunks that no reader needs.
// Damage that loses pixels is still an error.

const fs::path kGolden = fs::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data/golden";

std::string jpeg() { return FileSystem::system().read(kGolden / "rgb_444.jpg"); }

std::vector<std::uint8_t> pixels_of(const std::string& bytes) {
  Result<Image> image = decode_image(bytes, ColorMode::kRgb);
  return image ? std::move(image)->pixels : std::vector<std::uint8_t>();
}

std::string with_junk_before_its_end(std::string bytes) { return bytes.insert(bytes.size() - 2, std::string(40, 'x')); }

std::string with_junk_between_its_headers(std::string bytes) {
  return bytes.insert(bytes.find(std::string_view("\xff\xdb", 2)), "junk!");
}

std::string with_another_jfif(std::string bytes) {
  bytes[bytes.find("JFIF") + 5] = 7;
  return bytes;
}

/// Zeroes the last three bytes of the scan's header, as some programs do.
std::string with_a_zeroed_scan_header(std::string bytes) {
  const std::size_t scan = bytes.find(std::string_view("\xff\xda", 2));
  const auto length = static_cast<std::size_t>(static_cast<unsigned char>(bytes[scan + 3]));
  bytes.replace(scan + 2 + length - 3, 3, std::string(3, '\0'));
  return bytes;
}

TEST(OddPictures, AJpegWithAWarningThatLeavesItsPixelsWholeIsRead) {
  const std::vector<std::uint8_t> whole = pixels_of(jpeg());
  ASSERT_FALSE(whole.empty());
  const Region corner{1, 1, {4, 4}};
  for (const auto& odd :
       {with_junk_before_its_end, with_junk_between_its_headers, with_another_jfif, with_a_zeroed_scan_header}) {
    const std::string bytes = odd(jpeg());
    EXPECT_EQ(pixels_of(bytes), whole) << decode_image(bytes, ColorMode::kRgb).error();
    EXPECT_TRUE(image_size(bytes).ok());
    EXPECT_TRUE(data::decode_jpeg_region(bytes, ColorMode::kRgb, corner, {4, 4}).ok());
  }
}

TEST(OddPictures, WhatLosesPixelsOfAJpegStaysDamage) {
  const std::string bytes = jpeg();
  EXPECT_THAT(decode_image(bytes.substr(0, bytes.size() - 2), ColorMode::kRgb).error(), HasSubstr("truncated JPEG"));
  const std::size_t half = (bytes.find(std::string_view("\xff\xda", 2)) + bytes.size()) / 2;
  std::string ended = bytes;
  ended.erase(half, bytes.size() - 2 - half);
  EXPECT_THAT(decode_image(ended, ColorMode::kRgb).error(), HasSubstr("premature end of data segment"));
}

TEST(OddPictures, AreCountedInASurvey) {
  const test::TempDir folder;
  for (const char* name : {"a.jpg", "b.jpg"}) {
    std::ofstream(folder / name, std::ios::binary) << with_junk_before_its_end(jpeg());
  }
  std::ofstream(folder / "c.jpg", std::ios::binary) << jpeg();
  const Survey survey = survey_source(ImageFiles(folder.path()));
  EXPECT_EQ(survey.odd, 2);
  EXPECT_TRUE(survey.unreadable.empty());
}

std::string png_of(const std::vector<std::uint8_t>& samples, std::uint32_t width, spng_color_type type) {
  spng_ctx* context = spng_ctx_new(SPNG_CTX_ENCODER);
  spng_set_option(context, SPNG_ENCODE_TO_BUFFER, 1);
  spng_ihdr header{width, 1, 8, static_cast<std::uint8_t>(type), 0, 0, 0};
  spng_set_ihdr(context, &header);
  EXPECT_EQ(spng_encode_image(context, samples.data(), samples.size(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE), 0);
  std::size_t size = 0;
  int fault = 0;
  void* png = spng_get_png_buffer(context, &size, &fault);
  std::string bytes(static_cast<const char*>(png), size);
  std::free(png);
  spng_ctx_free(context);
  return bytes;
}

std::vector<std::uint8_t> gray_of(const std::string& png) {
  Result<Image> image = decode_image(png, ColorMode::kGray);
  EXPECT_TRUE(image.ok());
  return image->pixels;
}

TEST(OddPictures, BlackOnTransparentComesOnWhite) {
  const std::string rgba = png_of({0, 0, 0, 255, 0, 0, 0, 0, 0, 0, 0, 51}, 3, SPNG_COLOR_TYPE_TRUECOLOR_ALPHA);
  EXPECT_THAT(gray_of(rgba), ElementsAre(0, 255, 204));
  EXPECT_THAT(pixels_of(rgba), ElementsAre(0, 0, 0, 255, 255, 255, 204, 204, 204));
  EXPECT_THAT(gray_of(png_of({0, 255, 0, 0}, 2, SPNG_COLOR_TYPE_GRAYSCALE_ALPHA)), ElementsAre(0, 255));
  EXPECT_THAT(gray_of(png_of({255, 255, 255, 0}, 2, SPNG_COLOR_TYPE_GRAYSCALE_ALPHA)), ElementsAre(255, 0))
      << "white on transparent comes on black";
}

std::string chunk(const std::string& type, const std::string& content) {
  const auto number = [](std::uint32_t value) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
    return bytes;
  };
  const std::string both = type + content;
  const auto crc = crc32(0, reinterpret_cast<const Bytef*>(both.data()), static_cast<uInt>(both.size()));
  return number(static_cast<std::uint32_t>(content.size())) + both + number(static_cast<std::uint32_t>(crc));
}

// Other programs warn about such chunks or ignore them; no chunk changes a pixel.
TEST(OddPictures, APngWithChunksThatNoReaderNeedsIsRead) {
  constexpr std::size_t kAfterHeader = 33;
  std::string torn_text = chunk("tEXt", "a\0b");
  torn_text.back() ^= 1;
  const std::vector<std::pair<std::string, std::string>> chunks = {
      {"gamma", chunk("gAMA", std::string(4, '\0'))},
      {"profile", chunk("iCCP", "no profile")},
      {"text", torn_text},
      {"twice", chunk("pHYs", std::string(9, '\1')) + chunk("pHYs", std::string(9, '\1'))},
      {"time", chunk("tIME", std::string(3, '\0'))},
      {"background", chunk("bKGD", std::string(9, '\0'))},
      {"palette", chunk("PLTE", std::string(6, '\0'))},
      {"empty", chunk("IDAT", "")},
  };
  for (const char* name : {"gray.png", "rgb.png"}) {
    const std::string whole = FileSystem::system().read(kGolden / name);
    for (const auto& [what, bytes] : chunks) {
      std::string odd = whole;
      odd.insert(kAfterHeader, bytes);
      const Result<Image> image = decode_image(odd, ColorMode::kRgb);
      EXPECT_TRUE(image.ok()) << name << ", " << what << ": " << image.error();
      EXPECT_EQ(pixels_of(odd), pixels_of(whole)) << name << ", " << what;
    }
    EXPECT_EQ(pixels_of(whole + "what a camera adds"), pixels_of(whole));
  }
}

TEST(OddPictures, TransparencyOfAPictureWithColoursIsPassedOver) {
  EXPECT_THAT(gray_of(png_of({0, 0, 0, 255, 9, 9, 9, 0}, 2, SPNG_COLOR_TYPE_TRUECOLOR_ALPHA)), ElementsAre(0, 9));
  EXPECT_THAT(gray_of(png_of({7, 7, 7, 40, 7, 7, 7, 40}, 2, SPNG_COLOR_TYPE_TRUECOLOR_ALPHA)), ElementsAre(7, 7))
      << "nothing is to be seen in it";
}

// Images that a camera stored sideways: each is read as a viewer shows it, unless its annotations refer to the stored
// pixels.

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

// From EXIF 2.3, 4.6.4 A: the corner of the stored image (0 upper left .. 3 lower right) for each corner of the upright
// one.
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

/// Returns the difference between a crop decoded at a quarter of the size and the means of the same region in the whole
/// image.
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
  for (std::size_t length = 0; length < 28; ++length) {  // wherever it is cut, nothing is read past the end
    std::string torn = good.substr(0, tag + length) + good.substr(tag + 32);
    torn[5] = static_cast<char>(2 + length);
    EXPECT_EQ(decoded(torn).pixels, pixels) << length;
  }
}

/// A folder with a sideways image, and annotations with a size.
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

// 2,000 damaged images: each decodes or is an error that names its file; none crashes or takes unbounded memory.

constexpr int kPictures = 2000;
constexpr long kMostGrowth = 1 << 20;  // KiB: one image of the largest decoded size, 16,384 x 16,384 x 3

std::vector<std::string> golden_pictures() {
  std::vector<std::string> pictures;
  for (const std::string& name : FileSystem::system().list(fs::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data/golden")) {
    const fs::path path = fs::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data/golden" / name;
    if (path.extension() == ".png" || path.extension() == ".jpg") pictures.push_back(FileSystem::system().read(path));
  }
  return pictures;
}

void put_big_endian(std::string& bytes, std::size_t at, std::uint32_t value, int count) {
  for (int i = 0; i < count; ++i)
    bytes[at + static_cast<std::size_t>(i)] = static_cast<char>(value >> (8 * (count - 1 - i)));
}

// Writes a header that claims an enormous image, with a correct checksum if the format has one.
void make_huge(std::string& bytes, SampleRandom& random) {
  const auto side = [&] { return static_cast<std::uint32_t>(random.between(10'000, 60'000)); };
  if (bytes.starts_with("\x89PNG")) {
    put_big_endian(bytes, 16, side(), 4);
    put_big_endian(bytes, 20, side(), 4);
    put_big_endian(bytes, 29,
                   static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(bytes.data()) + 12, 17)), 4);
    return;
  }
  for (std::size_t at = 2; at + 9 < bytes.size(); ++at) {
    const auto marker = static_cast<unsigned char>(bytes[at + 1]);
    if (bytes[at] == '\xff' && (marker == 0xC0 || marker == 0xC2)) {
      put_big_endian(bytes, at + 5, side(), 2);
      put_big_endian(bytes, at + 7, side(), 2);
      return;
    }
  }
}

std::string damaged(std::string bytes, int kind, SampleRandom& random) {
  const std::size_t at = random.below(bytes.size());
  switch (kind) {
    case 0:
      return bytes.substr(0, at);
    case 1:
      for (std::int64_t flips = random.between(1, 16); flips > 0; --flips) {
        bytes[random.below(bytes.size())] ^= static_cast<char>(1 << random.below(8));
      }
      return bytes;
    case 2:
      make_huge(bytes, random);
      return bytes;
    case 3: {
      constexpr std::array<std::string_view, 3> kStarts = {"\x89PNG\r\n\x1a\n", "\xff\xd8\xff\xe0", "GIF89a"};
      const std::string_view start = kStarts[random.below(kStarts.size())];
      bytes.replace(0, start.size(), start);
      return bytes;
    }
    case 4:
      bytes.replace(at, std::min<std::size_t>(bytes.size() - at, random.below(64)), random.below(64), '\0');
      return bytes;
    default:
      bytes.erase(at, random.below(16));
      return bytes;
  }
}

// True if it decoded; an error must name the file.
bool decodes(const std::string& bytes, const std::string& name, SampleRandom& random) {
  const auto fresh = [&] { return Pixels(EncodedImage{nullptr, bytes, name}); };
  try {
    Pixels whole = fresh();
    const ImageSize size = whole.size();
    Pixels part = fresh();
    const Region region{size.width / 2, size.height / 2, {size.width - size.width / 2, size.height - size.height / 2}};
    (void)part.crop(region, {1, 1});
    (void)part.decoded();
    const Image& image = whole.decoded(random.chance(0.5) ? ColorMode::kGray : ColorMode::kRgb);
    EXPECT_EQ(image.size, size);
    EXPECT_EQ(std::ssize(image.pixels), size.width * size.height * image.channels);
    return true;
  } catch (const DataError& error) {
    EXPECT_NE(error.message().find(name), std::string::npos) << error.message();
    return false;
  }
}

long peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST(CorruptImages, AreErrorsThatNameTheirFileOrDecode) {
  const std::vector<std::string> pictures = golden_pictures();
  ASSERT_GE(pictures.size(), 10U);
  SampleRandom random(7);
  const long before = peak_kib();
  std::array<int, 6> refused{};
  for (int i = 0; i < kPictures; ++i) {
    const std::string& good = pictures[static_cast<std::size_t>(i) % pictures.size()];
    const int kind = i / static_cast<int>(pictures.size()) % 6;
    if (!decodes(damaged(good, kind, random), fmt::format("folder/{}.img", i), random))
      ++refused[static_cast<std::size_t>(kind)];
  }
  for (const int count : refused) EXPECT_GT(count, 30);  // every kind of damage is seen
  EXPECT_LT(peak_kib() - before, kMostGrowth);
}

}  // namespace odd_pictures_test
}  // namespace lockstep
