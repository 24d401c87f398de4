// SPDX-License-Identifier: Apache-2.0
// Decodes files to pixels and floats; every error names the file.
#include "lockstep/data/decode.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

#include "data/codec.h"
#include "data/exif.h"
#include "data/format_name.h"
#include "data/pixel_kernel.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"

namespace lockstep {
namespace data {

namespace {

std::atomic<std::int64_t> most_pixels = kDefaultMaxPixels;

// A photo has about one byte per 4 pixels, a drawing one per 50. Less than one per 100 is an empty mask, or an attack.
constexpr std::int64_t kPixelsAByte = 100;
constexpr std::int64_t kShareOfEmpty = 4;  // divisor of max_pixels() for such a file

std::atomic<std::int64_t> odd_count{0};
std::array<std::atomic<bool>, 3> noted{};  // indexed by Oddity

struct OddPicture {
  bool is_odd = false;
  Oddity kind = Oddity::kWarning;
  std::string words;
};

OddPicture& odd_picture() {
  static thread_local OddPicture last;
  return last;
}

bool is_implausible(std::int64_t pixels, std::int64_t bytes) { return pixels / kPixelsAByte > bytes; }

/// The setting that would allow a file of this many pixels and bytes.
std::string setting_for(std::int64_t pixels, std::int64_t bytes) {
  return fmt::format("data.max_pixels={} allows it", is_implausible(pixels, bytes) ? pixels * kShareOfEmpty : pixels);
}

Failure unknown_format(std::string_view bytes) {
  const std::string format = other_format(bytes);
  return Failure{"neither a PNG nor a JPEG file" + (format.empty() ? "" : ", " + format)};
}

}  // namespace

void set_oddity(Oddity kind, std::string words) { odd_picture() = {true, kind, std::move(words)}; }

void forget_oddity() noexcept { odd_picture().is_odd = false; }

void set_turned(std::string_view bytes) {
  if (odd_picture().is_odd) return;
  set_oddity(Oddity::kTurned,
             fmt::format("it is rotated upright according to its EXIF orientation ({})", exif_orientation(bytes)));
}

void note_oddity(const std::string& name) {
  OddPicture& odd = odd_picture();
  if (!odd.is_odd) return;
  odd.is_odd = false;
  if (odd.kind != Oddity::kTurned) ++odd_count;
  if (noted[static_cast<std::size_t>(odd.kind)].exchange(true)) return;
  log::note("{}: {}; similar files are handled the same way and only counted (lockstep inspect data)", name, odd.words);
}

Result<ImageSize> checked_size(std::int64_t width, std::int64_t height, std::size_t file_bytes) {
  if (width > kMaxSide || height > kMaxSide) {
    return Failure{fmt::format("{} x {} pixels, more than {} per side", width, height, kMaxSide)};
  }
  const std::int64_t most = max_pixels();
  const std::int64_t pixels = width * height;
  const auto bytes = static_cast<std::int64_t>(file_bytes);
  if (pixels > most) {
    return Failure{fmt::format("{} x {} pixels, more than the {} of data.max_pixels; {}", width, height, most,
                               setting_for(pixels, bytes))};
  }
  if (pixels > most / kShareOfEmpty && is_implausible(pixels, bytes)) {
    return Failure{
        fmt::format("{} x {} pixels are implausible for {} bytes: such a file may have at most {}, a quarter of "
                    "data.max_pixels; {}",
                    width, height, bytes, most / kShareOfEmpty, setting_for(pixels, bytes))};
  }
  return ImageSize{width, height};
}

Result<Image> decode_stored(std::string_view bytes, ColorMode mode) {
  forget_oddity();
  if (bytes.empty()) return Failure{"empty file"};
  if (is_png(bytes)) return decode_png(bytes, mode);
  if (is_jpeg(bytes)) return decode_jpeg(bytes, mode);
  constexpr std::string_view kPngStart = "\x89PNG\r\n\x1a\n";
  if (bytes.size() < kPngStart.size() && kPngStart.starts_with(bytes)) return Failure{"truncated PNG"};
  return unknown_format(bytes);
}

Result<ImageSize> stored_size(std::string_view bytes) {
  if (bytes.empty()) return Failure{"empty file"};
  if (is_png(bytes)) return png_size(bytes);
  if (is_jpeg(bytes)) return jpeg_size(bytes);
  return unknown_format(bytes);
}

}  // namespace data

void set_max_pixels(std::int64_t pixels) {
  if (pixels < 1) throw UsageError(fmt::format("data.max_pixels is {}, must be at least 1", pixels));
  data::most_pixels = pixels;
}

std::int64_t max_pixels() noexcept { return data::most_pixels; }

std::int64_t odd_pictures() noexcept { return data::odd_count; }

Result<Image> decode_image(std::string_view bytes, ColorMode mode) {
  Result<Image> image = data::decode_stored(bytes, mode);
  const data::Turn turn = data::turn_of_file(bytes);
  if (!image || !turn.any()) return image;
  data::set_turned(bytes);
  return data::upright(std::move(image).value(), turn);
}

Result<ImageSize> image_size(std::string_view bytes) {
  const Result<ImageSize> size = data::stored_size(bytes);
  return size ? data::upright(size.value(), data::turn_of_file(bytes)) : size;
}

Image read_image(const std::filesystem::path& path, ColorMode mode) {
  const std::string bytes = FileSystem::system().read(path, kMostPictureBytes);
  Result<Image> image = decode_image(bytes, mode);
  if (!image) {
    throw DataError(fmt::format("cannot read image {}: {} ({} bytes)", path.string(), image.error(), bytes.size()),
                    "replace the file or remove it from the folder");
  }
  data::note_oddity(path.string());
  return std::move(image).value();
}

Image resize_image(const Image& image, ImageSize size) {
  const int type = image.channels == 1 ? CV_8UC1 : CV_8UC3;
  Image result{size, image.channels, {}};
  result.pixels.resize(static_cast<std::size_t>(size.width * size.height * image.channels));
  // OpenCV has no const view; it only reads this one.
  const cv::Mat from(static_cast<int>(image.size.height), static_cast<int>(image.size.width), type,
                     const_cast<std::uint8_t*>(image.pixels.data()));
  cv::Mat to(static_cast<int>(size.height), static_cast<int>(size.width), type, result.pixels.data());
  const bool shrinks = size.width * size.height < image.size.width * image.size.height;
  cv::resize(from, to, to.size(), 0, 0, shrinks ? cv::INTER_AREA : cv::INTER_LINEAR);
  return result;
}

void to_float_chw(const Image& image, float* out) noexcept { data::to_float_planes(view_of(image), {}, out); }

}  // namespace lockstep
