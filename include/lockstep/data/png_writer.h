// SPDX-License-Identifier: Apache-2.0
// Encodes pixels as a PNG file: the only encoder in this project. No torch header.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/data/picture.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The filter applied to rows before compression.
enum class PngFilter : std::uint8_t {
  kBest,  ///< chosen for each row; gives the smallest files
  kSub,   ///< differences from the left neighbour; fast, good for drawings
  kNone   ///< no filter; fast, good for maps with few values
};

/// The options of encode_png().
struct PngOptions {
  std::optional<int> compression = std::nullopt;  ///< 0 to 9 as in zlib; none: zlib's default
  PngFilter filter = PngFilter::kBest;            ///< the row filter
};

/// Encodes 8-bit pixels of one channel (gray) or three (RGB). The same pixels and options produce the same bytes.
/// Throws: UsageError for any other number of channels; InternalError if libspng rejects the pixels.
/// Example: write_file_atomically(files, "map.png", encode_png(view_of(map), {.filter = PngFilter::kNone}));
[[nodiscard]] std::string encode_png(const PixelView& pixels, const PngOptions& options = {});

}  // namespace lockstep

#pragma GCC visibility pop
