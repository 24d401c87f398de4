// SPDX-License-Identifier: Apache-2.0
// COCO's JSON as untrusted input; only one annotation at a time is in memory as JSON. No torch header.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/sources/annotations/rle.h"
#include "lockstep/base/result.h"
#include "lockstep/data/picture.h"

namespace lockstep::data {

/// The outline of an object as COCO states it: polygons, run lengths, or neither.
struct CocoOutline {
  std::vector<std::vector<double>> polygons;
  RunLengths runs;
};

struct CocoImage {
  std::int64_t id = 0;
  std::string file;
  ImageSize size;  ///< 0 x 0 if the file does not state it
  std::vector<Object> objects;
  std::vector<CocoOutline> outlines;  ///< outlines of the objects, if masks were requested
  std::vector<std::string> captions;
};

struct Coco {
  std::vector<CocoImage> images;
  std::vector<std::string> class_names;
  std::vector<std::int64_t> category_ids;  ///< by label; empty if labels are ids
  std::int64_t left_out = 0;
  std::string first_left_out;  ///< the first annotation that was skipped, and the reason
};

struct CocoChoice {
  bool masks = false;
  bool remap = true;
  bool strict = true;
};

[[nodiscard]] Result<Coco> parse_coco(std::string_view text, const CocoChoice& choice);

/// Draws the object's mask; none if the outline is empty.
[[nodiscard]] Result<std::optional<Image>> draw_outline(const CocoOutline& outline, ImageSize size);

}  // namespace lockstep::data
