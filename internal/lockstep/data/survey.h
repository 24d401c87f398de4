// SPDX-License-Identifier: Apache-2.0
// A survey of a source, which reads every picture once. No torch header.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lockstep/data/picture.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// A picture that cannot be used for training.
struct UnreadablePicture {
  std::string name;    ///< the picture, as its source describes it
  std::string reason;  ///< the reason why it cannot be read
};

/// The counts and sizes of a source. Except for `unreadable`, they include only pictures that could be decoded.
struct Survey {
  std::int64_t pictures = 0;                      ///< number of pictures that were read
  std::vector<ImageSize> sizes;                   ///< in the source's order
  std::map<std::string, std::int64_t> formats;    ///< number of pictures by format: "JPEG", "PNG", "decoded"
  std::map<std::int64_t, std::int64_t> channels;  ///< number of pictures by channels in the file
  std::map<std::int64_t, std::int64_t> classes;   ///< number of pictures by label
  std::int64_t unlabelled = 0;                    ///< number of pictures without a label
  std::map<std::int64_t, std::int64_t> objects;   ///< number of objects by label
  std::vector<std::int64_t> objects_a_picture;    ///< number of objects of each picture
  std::vector<Box> boxes;                         ///< boxes of all objects
  std::int64_t empty_boxes = 0;                   ///< number of boxes without area
  std::int64_t masks = 0;                         ///< number of objects with a mask
  std::int64_t maps = 0;                          ///< number of label maps
  std::map<std::int64_t, std::int64_t> pixels;    ///< number of pixels of the maps, by value
  std::int64_t captions = 0;                      ///< number of captions
  std::int64_t odd = 0;                           ///< number of pictures with a fault that leaves the pixels whole
  std::int64_t turned = 0;                        ///< number of pictures rotated upright by their EXIF orientation
  std::int64_t as_stored = 0;                     ///< number of pictures left as stored, to fit their annotations
  std::vector<UnreadablePicture> unreadable;      ///< pictures that cannot be read
};

/// Decodes every picture. `progress`, if given, gets the number of pictures decoded so far.
/// Throws: IoError; a picture that cannot be decoded is only counted.
[[nodiscard]] Survey survey_source(const ImageSource& source, const std::function<void(std::int64_t)>& progress = {});

}  // namespace lockstep

#pragma GCC visibility pop
