// SPDX-License-Identifier: Apache-2.0
// Classes as colours on an image, and pages of the worst and best images in an evaluation. No torch header.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/picture.h"

namespace lockstep::segmentation {

/// The colour of a class in Pascal VOC's palette: the bits of the class, spread over the three channels from the top.
[[nodiscard]] std::array<std::uint8_t, 3> class_color(std::int64_t label);

struct OverlayOptions {
  double opacity = 0.5;     ///< opacity of the colours over the image
  bool background = false;  ///< if true, class 0 is also coloured (black)
  bool outlines = true;     ///< if true, a thin opaque line at the border of each class
};

/// Colours the image by its classes; kUnlabelled pixels are unchanged.
/// Shapes: `classes` one channel, as large as the image. Throws: UsageError if it is not.
[[nodiscard]] Image overlay(const PixelView& picture, const Image& classes, const OverlayOptions& options = {});

/// One evaluated image, to be drawn.
struct JudgedPicture {
  std::int64_t index = 0;  ///< index in the source
  double quality = 0;      ///< mean IoU of the image
  Image classes;           ///< predicted classes
};

/// Keeps the worst and the best of all images added.
class Gallery {
 public:
  explicit Gallery(std::size_t each = 6) : each_(each) {}

  void add(JudgedPicture picture);
  /// Adds the images of another rank's gallery, as encoded by its bytes(). Throws: InternalError if they are invalid.
  void merge(std::string_view bytes);
  [[nodiscard]] std::string bytes() const;

  /// The worst images, worst first; of equal images, the one with the lower index first.
  [[nodiscard]] const std::vector<JudgedPicture>& worst() const noexcept { return worst_; }
  /// The best images, best first.
  [[nodiscard]] const std::vector<JudgedPicture>& best() const noexcept { return best_; }

 private:
  std::size_t each_;
  std::vector<JudgedPicture> worst_;
  std::vector<JudgedPicture> best_;
};

/// Writes worst.png and best.png: each image three times (plain, with its mask, which is maps[0] of the source, and
/// with the prediction), and a legend of the classes. Returns the files; none if the gallery is empty. Throws:
/// DataError naming an image that cannot be decoded; IoError.
[[nodiscard]] std::vector<std::filesystem::path> draw_pictures(const Gallery& gallery, const ImageSource& source,
                                                               const std::filesystem::path& folder,
                                                               const std::vector<std::string>& class_names = {});

}  // namespace lockstep::segmentation
