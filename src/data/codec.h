// SPDX-License-Identifier: Apache-2.0
// One function per image format, from bytes to 8-bit RGB or gray. The bytes are foreign: no throw, no torch header.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lockstep/data/picture.h"

namespace lockstep::data {

/// A larger side is refused before memory is allocated.
inline constexpr std::int64_t kMaxSide = 16384;  // pixels

/// Returns the size that the header of a file of so many bytes states, or a Failure: a side or the whole is too large
/// (max_pixels()), or out of proportion to the file. Units: pixels.
[[nodiscard]] Result<ImageSize> checked_size(std::int64_t width, std::int64_t height, std::size_t file_bytes);

/// True if inflating `packed` bytes can yield so many: deflate expands one byte to 1032 at most.
[[nodiscard]] constexpr bool can_inflate_to(std::uint64_t bytes, std::size_t packed) noexcept {
  return bytes / 1032 <= packed;
}

[[nodiscard]] bool is_png(std::string_view bytes) noexcept;
[[nodiscard]] bool is_jpeg(std::string_view bytes) noexcept;

[[nodiscard]] Result<ImageSize> png_size(std::string_view bytes);
[[nodiscard]] Result<ImageSize> jpeg_size(std::string_view bytes);

[[nodiscard]] Result<Image> decode_png(std::string_view bytes, ColorMode mode);
[[nodiscard]] Result<Image> decode_jpeg(std::string_view bytes, ColorMode mode);

/// Oddities of a picture whose pixels are whole; kTurned is noted only, and not counted.
enum class Oddity { kWarning, kTransparency, kTurned };

/// Remembers for this thread an oddity of the picture that it decodes.
void set_oddity(Oddity kind, std::string words);
/// Does the same for a JPEG that is rotated upright; any other oddity takes precedence.
void set_turned(std::string_view bytes);
void forget_oddity() noexcept;
/// Counts the picture that this thread decoded last if it is odd, and notes the first one of each kind by its name.
void note_oddity(const std::string& name);

/// Decodes PNGs of 8 bits without interlacing, palette or transparent colour, fast; none for all others and for damaged
/// ones: decode_png() reports the fault.
[[nodiscard]] std::optional<Image> decode_plain_png(std::string_view bytes, ColorMode mode);

/// Pixels of a file, and the place of the requested region in them: they may extend beyond it by less than one.
struct ImagePart {
  Image image;
  Box where;
};

/// Decodes only `region`, which is inside, shrunk by the largest power of two (to 8) that leaves at least `wanted`
/// pixels each way. Without shrinking the bits are those of the whole picture. Faults below the region are not found.
[[nodiscard]] Result<ImagePart> decode_jpeg_region(std::string_view bytes, ColorMode mode, const Region& region,
                                                   ImageSize wanted);

}  // namespace lockstep::data
