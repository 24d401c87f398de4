// SPDX-License-Identifier: Apache-2.0
// A survey of a source, which reads every image once. No torch header.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lockstep/data/picture.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// An image that cannot be used for training.
struct UnreadablePicture {
  std::string name;    ///< the image, as its source describes it
  std::string reason;  ///< the reason why it cannot be read
};

/// The counts and sizes of a source. Except for `unreadable`, they include only images that could be decoded.
struct Survey {
  std::int64_t pictures = 0;                      ///< number of images that were read
  std::vector<ImageSize> sizes;                   ///< in the source's order
  std::map<std::string, std::int64_t> formats;    ///< number of images by format: "JPEG", "PNG", "decoded"
  std::map<std::int64_t, std::int64_t> channels;  ///< number of images by channels in the file
  std::map<std::int64_t, std::int64_t> classes;   ///< number of images by label
  std::int64_t unlabelled = 0;                    ///< number of images without a label
  std::map<std::int64_t, std::int64_t> objects;   ///< number of objects by label
  std::vector<std::int64_t> objects_a_picture;    ///< number of objects in each image
  std::vector<Box> boxes;                         ///< boxes of all objects
  std::int64_t empty_boxes = 0;                   ///< number of boxes without area
  std::int64_t masks = 0;                         ///< number of objects with a mask
  std::int64_t maps = 0;                          ///< number of label maps
  std::map<std::int64_t, std::int64_t> pixels;    ///< number of pixels of the maps, by value
  std::int64_t captions = 0;                      ///< number of captions
  std::int64_t odd = 0;                           ///< number of images with a defect that leaves the pixels intact
  std::int64_t turned = 0;                        ///< number of images rotated upright by their EXIF orientation
  std::int64_t as_stored = 0;                     ///< number of images left as stored, to fit their annotations
  std::vector<UnreadablePicture> unreadable;      ///< images that cannot be read
};

/// Decodes every image. `progress`, if given, receives the number of images decoded so far.
/// Throws: IoError; an image that cannot be decoded is only counted.
[[nodiscard]] Survey survey_source(const ImageSource& source, const std::function<void(std::int64_t)>& progress = {});

}  // namespace lockstep

#pragma GCC visibility pop
