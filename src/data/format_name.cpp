// SPDX-License-Identifier: Apache-2.0
#include "data/format_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace lockstep::data {
namespace {

using namespace std::string_view_literals;  // NOLINT(google-build-using-namespace): the bytes contain zeros

constexpr std::string_view kConvert = "convert it to PNG";
constexpr std::string_view kDownload = "download the file again";

/// The bytes at `at` by which a format is known, in lower case if they are text.
struct Magic {
  std::size_t at = 0;
  std::string_view bytes;
  std::string_view name;
  std::string_view next = kConvert;
};

constexpr std::array<Magic, 16> kMagics = {{{8, "webp"sv, "WebP"},
                                            {0, "gif8"sv, "GIF"},
                                            {0, "ii*\0"sv, "TIFF"},
                                            {0, "mm\0*"sv, "TIFF"},
                                            {4, "ftypavif"sv, "AVIF"},
                                            {4, "ftypavis"sv, "AVIF"},
                                            {4, "ftypheic"sv, "HEIC"},
                                            {4, "ftypheix"sv, "HEIC"},
                                            {4, "ftypmif1"sv, "HEIC"},
                                            {0, "\0\0\0\x0cjp  "sv, "JPEG 2000"},
                                            {0, "\xff\x6f\xff\x71"sv, "JPEG 2000"},
                                            {0, "\0\0\0\x0cjxl "sv, "JPEG XL"},
                                            {0, "<!doctype html"sv, "an HTML page", kDownload},
                                            {0, "<html"sv, "an HTML page", kDownload},
                                            {0, "version https://git-lfs"sv, "a Git LFS pointer", "run git lfs pull"},
                                            {0, "bm"sv, "BMP"}}};

char lower(char letter) { return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter; }

bool has(std::string_view bytes, const Magic& magic) {
  if (bytes.size() < magic.at + magic.bytes.size()) return false;
  return std::ranges::equal(bytes.substr(magic.at, magic.bytes.size()), magic.bytes, {}, lower);
}

}  // namespace

std::string other_format(std::string_view bytes) {
  const auto magic = std::ranges::find_if(kMagics, [&](const Magic& one) { return has(bytes, one); });
  return magic == kMagics.end() ? std::string() : fmt::format("but {}: {}", magic->name, magic->next);
}

}  // namespace lockstep::data
