// SPDX-License-Identifier: Apache-2.0
// Pictures that others read and that have something odd: warnings of libjpeg, shapes in transparency, chunks that no
// reader needs. And what loses pixels, which is a fault as before.
#include <spng.h>
#include <zlib.h>

#include <array>
#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "data/codec.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/picture.h"
#include "lockstep/data/sources/image_files.h"
#include "lockstep/data/survey.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace odd_pictures_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

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

/// As files that leave the last three bytes of the scan's header zero.
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

// Others warn of such chunks, or say nothing; none of them changes a pixel.
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

}  // namespace odd_pictures_test
}  // namespace lockstep
