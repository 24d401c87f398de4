// SPDX-License-Identifier: Apache-2.0
// One function per image format, from bytes to 8-bit RGB or gray. Bytes are untrusted; nothing throws. No torch header.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lockstep/data/picture.h"

namespace lockstep::data {

/// The largest side of an image; a larger image is rejected before memory is allocated.
inline constexpr std::int64_t kMaxSide = 16384;  // pixels

/// Returns the size that a file's header states, or a Failure if a side or the total is too large (max_pixels()) or out
/// of proportion to `file_bytes`. Units: pixels.
[[nodiscard]] Result<ImageSize> checked_size(std::int64_t width, std::int64_t height, std::size_t file_bytes);

/// Returns true if inflating `packed` bytes can yield `bytes` bytes: deflate expands one byte to 1032 at most.
[[nodiscard]] constexpr bool can_inflate_to(std::uint64_t bytes, std::size_t packed) noexcept {
  return bytes / 1032 <= packed;
}

[[nodiscard]] bool is_png(std::string_view bytes) noexcept;
[[nodiscard]] bool is_jpeg(std::string_view bytes) noexcept;

[[nodiscard]] Result<ImageSize> png_size(std::string_view bytes);
[[nodiscard]] Result<ImageSize> jpeg_size(std::string_view bytes);

[[nodiscard]] Result<Image> decode_png(std::string_view bytes, ColorMode mode);
[[nodiscard]] Result<Image> decode_jpeg(std::string_view bytes, ColorMode mode);

/// Oddities in an image whose pixels are intact. kTurned is logged but not counted.
enum class Oddity { kWarning, kTransparency, kTurned };

/// Stores an oddity of the image that this thread is decoding.
void set_oddity(Oddity kind, std::string words);
/// Does the same for a JPEG that is rotated upright; any other oddity takes precedence.
void set_turned(std::string_view bytes);
void forget_oddity() noexcept;
/// Counts the last image that this thread decoded if it is odd, and logs the first image of each kind by name.
void note_oddity(const std::string& name);

/// Decodes 8-bit PNGs without interlacing, palette or transparent colour, faster than decode_png(). Returns none for
/// other PNGs and for damaged ones, whose error decode_png() reports.
[[nodiscard]] std::optional<Image> decode_plain_png(std::string_view bytes, ColorMode mode);

/// Pixels of a file, and the place of the requested region in them. The pixels may extend beyond the region by less
/// than a pixel.
struct ImagePart {
  Image image;
  Box where;
};

/// Decodes only `region`, which is inside the image, shrunk by the largest power of two, up to 8, that leaves at least
/// `wanted` pixels in each direction. Unshrunk pixels equal those of the whole image. Errors in the rows below the
/// region are not detected.
[[nodiscard]] Result<ImagePart> decode_jpeg_region(std::string_view bytes, ColorMode mode, const Region& region,
                                                   ImageSize wanted);

}  // namespace lockstep::data
