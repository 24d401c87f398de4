// SPDX-License-Identifier: Apache-2.0
// One function per image format, from bytes to 8-bit RGB or gray. The bytes are foreign: no throw, no torch header.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lockstep/data/picture.h"

namespace lockstep::data {

/// A larger side is refused before memory is asked for.
inline constexpr std::int64_t kMaxSide = 16384;  // pixels

/// The size that the header of a file of so many bytes states, or the Failure that names it: a side or the whole is too
/// large (max_pixels()), or out of proportion to the file. Units: pixels.
[[nodiscard]] Result<ImageSize> checked_size(std::int64_t width, std::int64_t height, std::size_t file_bytes);

/// Whether inflating `packed` bytes can give so many: deflate makes at most 1032 bytes of one.
[[nodiscard]] constexpr bool can_inflate_to(std::uint64_t bytes, std::size_t packed) noexcept {
  return bytes / 1032 <= packed;
}

[[nodiscard]] bool is_png(std::string_view bytes) noexcept;
[[nodiscard]] bool is_jpeg(std::string_view bytes) noexcept;

[[nodiscard]] Result<ImageSize> png_size(std::string_view bytes);
[[nodiscard]] Result<ImageSize> jpeg_size(std::string_view bytes);

[[nodiscard]] Result<Image> decode_png(std::string_view bytes, ColorMode mode);
[[nodiscard]] Result<Image> decode_jpeg(std::string_view bytes, ColorMode mode);

/// What is odd about a picture whose pixels are whole; kTurned is noted only, and not counted.
enum class Oddity { kWarning, kTransparency, kTurned };

/// Remembers for this thread what is odd about the picture that it decodes.
void set_oddity(Oddity kind, std::string words);
/// The same for a JPEG that is turned upright; another oddity of it is the one to note.
void set_turned(std::string_view bytes);
void forget_oddity() noexcept;
/// Counts the picture that this thread decoded last where it is odd, and notes the first one of each kind by its name.
void note_oddity(const std::string& name);

/// The fast way for PNGs of 8 bits without interlacing, palette or transparent colour; none for all others and for
/// those with any fault: decode_png() says what it is.
[[nodiscard]] std::optional<Image> decode_plain_png(std::string_view bytes, ColorMode mode);

/// Pixels of a file, and where the region that was asked for lies in them: they may reach over it by less than one.
struct ImagePart {
  Image image;
  Box where;
};

/// Only `region`, which lies inside, shrunk by the largest power of two (to 8) that leaves at least `wanted` pixels
/// each way. Without shrinking the same bits as in the whole picture. Faults below the region are not seen.
[[nodiscard]] Result<ImagePart> decode_jpeg_region(std::string_view bytes, ColorMode mode, const Region& region,
                                                   ImageSize wanted);

}  // namespace lockstep::data
