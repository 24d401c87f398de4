// SPDX-License-Identifier: Apache-2.0
// PNG files that hold a number for each pixel, judged as foreign input. No torch header.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "lockstep/data/decode.h"
#include "segmentation/synthetic/scribble.h"

namespace lockstep::segmentation {

/// What a map's numbers mean.
enum class MapMeaning {
  kClasses,    ///< class ids of 8 bits; kUnlabelled is none
  kInstances,  ///< up to 16 bits; anything but 0 is class 1
  kWeights,    ///< 0 .. 255
};

/// Reads a gray or palette PNG; a palette's colours do not matter, its indices are the numbers.
/// Throws: DataError naming the file where it is missing, torn, no PNG or a colour picture; IoError.
[[nodiscard]] NumberMap read_numbers(const std::filesystem::path& file);

/// The same as a map of one channel, classes where the meaning is one of classes.
/// Throws: also DataError naming the file where a map of classes or weights has 16 bits.
[[nodiscard]] Image read_map(const std::filesystem::path& file, MapMeaning meaning);

/// The class id that each value of a mask stands for.
using MaskValues = std::array<std::uint8_t, 256>;
/// Every value is its own class id.
[[nodiscard]] MaskValues plain_mask_values() noexcept;

/// Throws: DataError naming file, value and pixel where a class is neither below `classes` nor kUnlabelled.
void require_classes(const Image& map, std::int64_t classes, const std::filesystem::path& file);

/// Whether these bytes are a PNG of 16 bits a channel.
[[nodiscard]] bool is_deep_png(std::string_view bytes) noexcept;

}  // namespace lockstep::segmentation
