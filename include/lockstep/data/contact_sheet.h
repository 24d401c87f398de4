// SPDX-License-Identifier: Apache-2.0
// An overview of a set: a grid of images with their annotations. No torch header.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/data/draw_boxes.h"
#include "lockstep/data/picture.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The appearance of a contact sheet.
struct ContactSheetOptions {
  std::int64_t columns = 0;  ///< number of columns; 0 means about as many columns as rows
  std::int64_t cell = 224;   ///< length of an image's longer side, in pixels; smaller images are enlarged
  std::vector<std::string> class_names = {};  ///< names by label; a label without a name shows as its number
  std::vector<BoxMark> legend = {};  ///< legend of the frames: the text and style of each kind; boxes are ignored
};

/// Draws images with boxes, points, masks and maps, coloured by class. Below each image is its class, captions or name.
/// If the font is missing, the sheet has no text.
/// Throws: DataError naming an image that cannot be decoded; UsageError if there is no image.
[[nodiscard]] Image contact_sheet(std::vector<AnnotatedImage> pictures, const ContactSheetOptions& options = {});

/// Writes a PNG file. Throws: IoError; UsageError if the channels are neither 1 nor 3.
void write_png(const Image& image, const std::filesystem::path& path);

}  // namespace lockstep

#pragma GCC visibility pop
