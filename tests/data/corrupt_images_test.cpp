// SPDX-License-Identifier: Apache-2.0
// 2,000 damaged pictures: each is an error that names its file, or decodes; none crashes or takes memory without end.
#include <fmt/format.h>
#include <sys/resource.h>
#include <zlib.h>

#include <array>

#include <gtest/gtest.h>
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/picture.h"
#include "lockstep/data/sample_random.h"

namespace lockstep {
namespace corrupt_images_test {

namespace fs = std::filesystem;

constexpr int kPictures = 2000;
constexpr long kMostGrowth = 1 << 20;  // KiB: one picture of the largest size that is decoded, 16,384 x 16,384 x 3

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

// A header that states an enormous picture, with the right checksum where there is one.
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

// Whether it decoded; an error has to name the file.
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

}  // namespace corrupt_images_test
}  // namespace lockstep
