// SPDX-License-Identifier: Apache-2.0
// COCO's masks as run lengths down the columns, zeros first. Reads them as numbers, as compressed text, and from
// polygons. The input is untrusted. No torch header.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/data/picture.h"

namespace lockstep::data {

using RunLengths = std::vector<std::uint32_t>;

inline constexpr double kMaxOutlineCoordinate = 100'000;       // in pixels, in either direction from the image's corner
inline constexpr std::int64_t kMaxOutlinePoints = 20'000'000;  // points along one polygon, five per pixel

[[nodiscard]] RunLengths runs_of(const Image& mask);
/// Returns the mask of 0 and 1. Fails if the runs do not cover the image exactly.
[[nodiscard]] Result<Image> mask_of(const RunLengths& runs, ImageSize size);

/// Source: COCO's compressed counts. Each number is stored as its difference from the second number before it, with
/// five bits per character.
[[nodiscard]] std::string text_of(const RunLengths& runs);
[[nodiscard]] Result<RunLengths> runs_from_text(std::string_view text);

/// Draws the polygon (x, y, x, y, ...) into `mask`, as pycocotools does. Fails if it is not a polygon, or extends far
/// outside.
[[nodiscard]] Result<bool> draw_polygon(const std::vector<double>& corners, Image& mask);

}  // namespace lockstep::data
