// SPDX-License-Identifier: Apache-2.0
// Encodes pixels as a PNG file: the only encoder of this project. No torch header.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/data/picture.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The filter of rows before they are compressed.
enum class PngFilter : std::uint8_t {
  kBest,  ///< chosen for each row; gives the smallest files
  kSub,   ///< differences to the left neighbour; fast, good for drawings
  kNone   ///< no filter; fast, good for maps with few values
};

/// The options of encode_png().
struct PngOptions {
  std::optional<int> compression = std::nullopt;  ///< 0 to 9 as in zlib; none: zlib's default
  PngFilter filter = PngFilter::kBest;            ///< the filter of rows
};

/// Encodes 8-bit pixels of one channel (grey) or three (RGB). The same pixels and options give the same bytes.
/// Throws: UsageError for another number of channels; InternalError if libspng refuses the pixels.
/// Example: write_file_atomically(files, "map.png", encode_png(view_of(map), {.filter = PngFilter::kNone}));
[[nodiscard]] std::string encode_png(const PixelView& pixels, const PngOptions& options = {});

}  // namespace lockstep

#pragma GCC visibility pop
