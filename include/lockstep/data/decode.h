// SPDX-License-Identifier: Apache-2.0
// Decodes PNG and JPEG into plain bytes. Files are untrusted input: every error names the file. No torch header.
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

/// The channels of decoded pixels.
enum class ColorMode {
  kGray,  ///< ITU-R 601 luma, bit for bit as Pillow's convert("L"); alpha is dropped
  kRgb,   ///< alpha is dropped
};

/// Width and height in pixels.
struct ImageSize {
  std::int64_t width = 0;   ///< pixels
  std::int64_t height = 0;  ///< pixels

  bool operator==(const ImageSize&) const = default;
};

/// Pixels in rows from the top, channels interleaved, 8 bits each (the upper 8 bits of deeper files).
struct Image {
  ImageSize size;                    ///< width and height
  std::int64_t channels = 1;         ///< 1 or 3
  std::vector<std::uint8_t> pixels;  ///< size.width * size.height * channels values
};

/// Pillow's limit, as a guard against files that would exhaust memory.
inline constexpr std::int64_t kDefaultMaxPixels = 178'956'970;

/// The maximum size of an image file, in bytes.
inline constexpr std::uint64_t kMostPictureBytes = 512U << 20U;

/// Sets the process's pixel limit (the setting data.max_pixels). A larger image is rejected based on its header, before
/// memory is allocated. So is an image of more than a quarter of the limit whose file has less than one byte per 100
/// pixels. Throws: UsageError if below 1. Thread-safe: yes.
void set_max_pixels(std::int64_t pixels);
/// Returns the process's pixel limit.
[[nodiscard]] std::int64_t max_pixels() noexcept;

/// Returns the number of images that this process has decoded despite an oddity: a libjpeg warning that leaves the
/// pixels intact, such as extraneous bytes, or a single colour with the shape in its transparency. The first image of
/// each kind is logged by name. Thread-safe: yes.
[[nodiscard]] std::int64_t odd_pictures() noexcept;

/// Decodes the bytes of a PNG or JPEG file; the first bytes identify the format. A JPEG is rotated upright by its EXIF
/// orientation (Pillow's ImageOps.exif_transpose), and the first such file is logged. Transparency is ignored, unless
/// all pixels have the same colour: such an image is placed on white, or on black if its colour is light. Thread-safe:
/// yes.
/// Cost: at most 16,384 pixels per side and max_pixels() in all; a larger image is a Failure.
[[nodiscard]] Result<Image> decode_image(std::string_view bytes, ColorMode mode);

/// Returns the size that decode_image() would return, from the header of a PNG or JPEG file. The same limits apply.
/// Thread-safe: yes. Cost: no pixel is decoded.
[[nodiscard]] Result<ImageSize> image_size(std::string_view bytes);

/// Reads and decodes a file.
/// Throws: DataError naming the file if it is missing, empty, truncated, or neither PNG nor JPEG; IoError.
[[nodiscard]] Image read_image(const std::filesystem::path& path, ColorMode mode);

/// Resamples to `size` (OpenCV's area method when shrinking, linear when enlarging).
[[nodiscard]] Image resize_image(const Image& image, ImageSize size);

/// Writes channels x height x width floats, value / 255, to `out`.
void to_float_chw(const Image& image, float* out) noexcept;

}  // namespace lockstep

#pragma GCC visibility pop
