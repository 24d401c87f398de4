// SPDX-License-Identifier: Apache-2.0
// PNG files with a number for each pixel, checked as untrusted input. No torch header.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "lockstep/data/decode.h"
#include "segmentation/synthetic/scribble.h"

namespace lockstep::segmentation {

/// The meaning of a map's numbers.
enum class MapMeaning {
  kClasses,    ///< 8-bit class ids; kUnlabelled is not a class
  kInstances,  ///< up to 16 bits; any value except 0 is class 1
  kWeights,    ///< 0 .. 255
};

/// Reads a gray or palette PNG; the numbers are the palette's indices, and its colours are ignored.
/// Throws: DataError naming the file if it is missing, damaged, not a PNG or a colour image; IoError.
[[nodiscard]] NumberMap read_numbers(const std::filesystem::path& file);

/// Reads the same files into a one-channel map, of class ids unless the meaning is kWeights.
/// Throws: anything read_numbers() throws; DataError naming the file if a class or weight map has 16 bits.
[[nodiscard]] Image read_map(const std::filesystem::path& file, MapMeaning meaning);

/// The class id for each value of a mask.
using MaskValues = std::array<std::uint8_t, 256>;
/// The identity table: every value is its own class id.
[[nodiscard]] MaskValues plain_mask_values() noexcept;

/// Throws: DataError naming file, value and pixel if a class is neither below `classes` nor kUnlabelled.
void require_classes(const Image& map, std::int64_t classes, const std::filesystem::path& file);

/// True if these bytes are a PNG with 16 bits per channel.
[[nodiscard]] bool is_deep_png(std::string_view bytes) noexcept;

}  // namespace lockstep::segmentation
