// SPDX-License-Identifier: Apache-2.0
// The worst and the best images of an evaluation, with their objects and detections drawn on them. No torch header.
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

/// One evaluated image, to be drawn.
struct JudgedImage {
  std::int64_t index = 0;  ///< in the source
  double quality = 0;      ///< image_quality()
  ImageTruth truth;
  std::vector<FoundObject> found;         ///< the confident ones
  std::vector<FoundObject> guesses = {};  ///< less certain ones: the nearest to each missed object
};

/// Keeps the worst and the best of all images added. Images without objects can only be among the worst.
class Gallery {
 public:
  explicit Gallery(std::size_t each = 12) : each_(each) {}

  void add(std::int64_t index, const ImageTruth& truth, const std::vector<FoundObject>& found,
           const ImageResult& result);
  /// Adds the images of another rank's gallery, as encoded by its bytes(). Throws: InternalError if they are not.
  void merge(std::string_view bytes);
  [[nodiscard]] std::string bytes() const;

  /// The worst first; of equal ones, that with the lower id.
  [[nodiscard]] const std::vector<JudgedImage>& worst() const noexcept { return worst_; }
  /// The best first; of equal ones, that with more objects.
  [[nodiscard]] const std::vector<JudgedImage>& best() const noexcept { return best_; }

 private:
  void keep(const JudgedImage& image);

  std::size_t each_;
  std::vector<JudgedImage> worst_;
  std::vector<JudgedImage> best_;
};

struct DrawOptions {
  std::int64_t side = 400;                    ///< pixels of an image's longer side
  std::vector<std::string> class_names = {};  ///< by label; a class without a name shows its number
};

/// Draws one image, enlarged. Detections of kConfident have the colour of their class, with class and score; false ones
/// are dashed. Objects that were found have a thin white frame. Missed ones have only red corners and "missed: CLASS",
/// with the best guess below kConfident as a thin line in its class's colour. Crowds are dashed in gray.
/// Throws: DataError if the picture cannot be decoded.
[[nodiscard]] Image draw_result(AnnotatedImage picture, const JudgedImage& judged, const DrawOptions& options = {});

/// Writes worst.png and best.png into `folder`, each with a legend of the frames. Returns: the files; none if the
/// gallery is empty. Throws: DataError naming a picture that cannot be decoded; IoError.
[[nodiscard]] std::vector<std::filesystem::path> draw_results(const Gallery& gallery, const ImageSource& source,
                                                              const std::filesystem::path& folder,
                                                              const DrawOptions& options = {});

}  // namespace lockstep::detection
