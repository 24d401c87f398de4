// SPDX-License-Identifier: Apache-2.0
// What is in a source: every picture looked at once. No torch header.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lockstep/data/picture.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// A picture that nobody can train on.
struct UnreadablePicture {
  std::string name;
  std::string reason;
};

/// Counts and sizes; only of pictures that could be decoded, but for `unreadable`.
struct Survey {
  std::int64_t pictures = 0;
  std::vector<ImageSize> sizes;                   ///< in the source's order
  std::map<std::string, std::int64_t> formats;    ///< "JPEG", "PNG", "decoded"
  std::map<std::int64_t, std::int64_t> channels;  ///< as the file has them
  std::map<std::int64_t, std::int64_t> classes;   ///< pictures by their label
  std::int64_t unlabelled = 0;                    ///< pictures without one
  std::map<std::int64_t, std::int64_t> objects;   ///< by label
  std::vector<std::int64_t> objects_a_picture;
  std::vector<Box> boxes;
  std::int64_t empty_boxes = 0;  ///< without area
  std::int64_t masks = 0;        ///< of objects
  std::int64_t maps = 0;
  std::map<std::int64_t, std::int64_t> pixels;  ///< of the maps, by value
  std::int64_t captions = 0;
  std::vector<UnreadablePicture> unreadable;
};

/// Decodes every picture. `progress`, where there is one, gets the number of those looked at.
/// Throws: IoError; what cannot be decoded is only counted.
[[nodiscard]] Survey survey_source(const ImageSource& source, const std::function<void(std::int64_t)>& progress = {});

}  // namespace lockstep

#pragma GCC visibility pop
