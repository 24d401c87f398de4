// SPDX-License-Identifier: Apache-2.0
// The worst and the best images of an evaluation, with what is there and what was found drawn on them. No torch header.
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

/// One evaluated image as it will be drawn.
struct JudgedImage {
  std::int64_t index = 0;  ///< in the source
  double quality = 0;      ///< image_quality()
  ImageTruth truth;
  std::vector<FoundObject> found;         ///< the confident ones
  std::vector<FoundObject> guesses = {};  ///< less certain ones: what comes nearest to each missed object
};

/// Keeps the worst and the best images of all that it sees. Images without objects only count among the worst.
class Gallery {
 public:
  explicit Gallery(std::size_t each = 12) : each_(each) {}

  void add(std::int64_t index, const ImageTruth& truth, const std::vector<FoundObject>& found,
           const ImageResult& result);
  /// What another rank's gallery said with bytes(). Throws: InternalError where they are not.
  void merge(std::string_view bytes);
  [[nodiscard]] std::string bytes() const;

  /// The worst first; of equal ones that with the lower id.
  [[nodiscard]] const std::vector<JudgedImage>& worst() const noexcept { return worst_; }
  /// The best first; of equal ones that with more objects.
  [[nodiscard]] const std::vector<JudgedImage>& best() const noexcept { return best_; }

 private:
  void keep(const JudgedImage& image);

  std::size_t each_;
  std::vector<JudgedImage> worst_;
  std::vector<JudgedImage> best_;
};

struct DrawOptions {
  std::int64_t side = 400;                    ///< pixels that an image's longer side gets
  std::vector<std::string> class_names = {};  ///< by label; without one its number is written
};

/// One image enlarged: detections of kConfident in the colour of their class, with class and score, false ones dashed;
/// objects that were found with a thin white frame; of missed ones only red corners and "missed: CLASS", with the best
/// guess below kConfident in a thin line of its class's colour; crowds dashed in gray.
/// Throws: DataError where the picture cannot be decoded.
[[nodiscard]] Image draw_result(AnnotatedImage picture, const JudgedImage& judged, const DrawOptions& options = {});

/// Writes worst.png and best.png into `folder`, each with a legend of the frames. Returns: the files; none where the
/// gallery is empty. Throws: DataError naming a picture that cannot be decoded; IoError.
[[nodiscard]] std::vector<std::filesystem::path> draw_results(const Gallery& gallery, const ImageSource& source,
                                                              const std::filesystem::path& folder,
                                                              const DrawOptions& options = {});

}  // namespace lockstep::detection
