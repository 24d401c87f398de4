// SPDX-License-Identifier: Apache-2.0
// PNG and JPEG into plain bytes, judged as foreign input: every fault is told with the file's name. No torch header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"

#pragma GCC visibility push(default)

namespace lockstep {

enum class ColorMode {
  kGray,  ///< ITU-R 601 luma, the same bits as Pillow's convert("L"); alpha is dropped
  kRgb,   ///< alpha is dropped
};

struct ImageSize {
  std::int64_t width = 0;
  std::int64_t height = 0;

  bool operator==(const ImageSize&) const = default;
};

/// Pixels in rows from the top, channels interleaved, 8 bits each (deeper files keep their upper 8).
struct Image {
  ImageSize size;
  std::int64_t channels = 1;
  std::vector<std::uint8_t> pixels;
};

/// Pillow's limit against files that are made to fill the memory.
inline constexpr std::int64_t kDefaultMaxPixels = 178'956'970;

/// Pictures of more pixels are refused, by their header, before memory is asked for; so are those of more than a
/// quarter of it whose file has less than a byte for 100 of their pixels. Of the whole process; the setting
/// data.max_pixels. Throws: UsageError below 1. Thread-safe: yes.
void set_max_pixels(std::int64_t pixels);
[[nodiscard]] std::int64_t max_pixels() noexcept;

/// Decodes the bytes of a PNG or JPEG file, told apart by their first bytes.
/// Thread-safe: yes. Cost: at most 16,384 pixels a side and max_pixels() in all, else a Failure.
[[nodiscard]] Result<Image> decode_image(std::string_view bytes, ColorMode mode);

/// The size that the header of a PNG or JPEG file states. Thread-safe: yes. Cost: no pixel is decoded; sizes as above.
[[nodiscard]] Result<ImageSize> image_size(std::string_view bytes);

/// Reads and decodes a file.
/// Throws: DataError naming the file where it is missing, empty, truncated, or neither PNG nor JPEG; IoError.
[[nodiscard]] Image read_image(const std::filesystem::path& path, ColorMode mode);

/// Resamples to `size` (OpenCV's area method where it shrinks, linear where it grows).
[[nodiscard]] Image resize_image(const Image& image, ImageSize size);

/// Writes channels x height x width floats, value / 255, to `out`.
void to_float_chw(const Image& image, float* out) noexcept;

}  // namespace lockstep

#pragma GCC visibility pop
