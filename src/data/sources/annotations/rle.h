// SPDX-License-Identifier: Apache-2.0
// COCO's masks: run lengths down the columns, zeros first; as numbers, as its compressed text, and from polygons. The
// input is foreign. No torch header.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/data/picture.h"

namespace lockstep::data {

using RunLengths = std::vector<std::uint32_t>;

inline constexpr double kMaxOutlineCoordinate = 100'000;       // pixels either way from the picture's corner
inline constexpr std::int64_t kMaxOutlinePoints = 20'000'000;  // along one polygon, five to a pixel

[[nodiscard]] RunLengths runs_of(const Image& mask);
/// Returns the mask of 0 and 1. Fails if the runs do not cover exactly the picture.
[[nodiscard]] Result<Image> mask_of(const RunLengths& runs, ImageSize size);

/// Source: COCO's compressed counts: the difference of each number to the one two before it, five bits a letter.
[[nodiscard]] std::string text_of(const RunLengths& runs);
[[nodiscard]] Result<RunLengths> runs_from_text(std::string_view text);

/// Adds the polygon (x, y, x, y, ...) to `mask`, with pycocotools' pixels. Fails if it is no polygon, or extends far
/// outside.
[[nodiscard]] Result<bool> draw_polygon(const std::vector<double>& corners, Image& mask);

}  // namespace lockstep::data
