// SPDX-License-Identifier: Apache-2.0
// Draws the worst and the best images of an evaluation, with their objects and detections. No torch header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "detection/metrics/coco_eval.h"
#include "lockstep/data/picture.h"

namespace lockstep::detection {

/// An evaluated image to draw.
struct JudgedImage {
  std::int64_t index = 0;  ///< index in the source
  double quality = 0;      ///< quality from image_quality()
  ImageTruth truth;
  std::vector<FoundObject> found;         ///< confident detections
  std::vector<FoundObject> guesses = {};  ///< less certain detections: the best match for each missed object
};

/// Keeps the worst and the best of all images added. Images without objects can only be among the worst.
class Gallery {
 public:
  explicit Gallery(std::size_t each = 12) : each_(each) {}

  void add(std::int64_t index, const ImageTruth& truth, const std::vector<FoundObject>& found,
           const ImageResult& result);
  /// Adds the images of another rank's gallery, as encoded by its bytes(). Throws: InternalError if they are invalid.
  void merge(std::string_view bytes);
  [[nodiscard]] std::string bytes() const;

  /// The worst images, worst first; ties are broken by the lower id.
  [[nodiscard]] const std::vector<JudgedImage>& worst() const noexcept { return worst_; }
  /// The best images, best first; ties are broken by the larger number of objects.
  [[nodiscard]] const std::vector<JudgedImage>& best() const noexcept { return best_; }

 private:
  void keep(const JudgedImage& image);

  std::size_t each_;
  std::vector<JudgedImage> worst_;
  std::vector<JudgedImage> best_;
};

struct DrawOptions {
  std::int64_t side = 400;                    ///< longer side of an image in pixels
  std::vector<std::string> class_names = {};  ///< names by label; a class without a name shows its number
};

/// Draws one image, enlarged. Detections scoring at least kConfident are drawn in their class's colour and labelled
/// with class and score; false detections are dashed. Found objects get a thin white frame, missed objects only red
/// corners and "missed: CLASS", with the best guess below kConfident as a thin line in its class's colour. Crowds are
/// dashed in gray. Throws: DataError if the image cannot be decoded.
[[nodiscard]] Image draw_result(AnnotatedImage picture, const JudgedImage& judged, const DrawOptions& options = {});

/// Writes worst.png and best.png to `folder`, each with a legend explaining the frames. Returns the files; none if the
/// gallery is empty. Throws: DataError naming an image that cannot be decoded; IoError.
[[nodiscard]] std::vector<std::filesystem::path> draw_results(const Gallery& gallery, const ImageSource& source,
                                                              const std::filesystem::path& folder,
                                                              const DrawOptions& options = {});

}  // namespace lockstep::detection
