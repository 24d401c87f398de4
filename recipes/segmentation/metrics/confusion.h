// SPDX-License-Identifier: Apache-2.0
// The confusion matrix of a segmentation, and the metrics derived from it. No torch header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::segmentation {

/// Counts pixels by true and predicted class, as integers: sums do not depend on how samples are spread over ranks.
class Confusion {
 public:
  explicit Confusion(std::int64_t classes)
      : classes_(classes), pixels_(static_cast<std::size_t>(classes * classes), 0) {}

  /// Counts `count` pixels. Pixels whose truth is kUnlabelled are not counted.
  /// Throws: DataError if any other true class is not below `classes`; InternalError if a prediction is not.
  void add(const std::uint8_t* truth, const std::uint8_t* predicted, std::int64_t count);
  void merge(const Confusion& other);

  [[nodiscard]] std::int64_t classes() const noexcept { return classes_; }
  [[nodiscard]] std::int64_t at(std::int64_t truth, std::int64_t predicted) const {
    return pixels_[static_cast<std::size_t>(truth * classes_ + predicted)];
  }
  [[nodiscard]] std::int64_t pixels() const;                 ///< number of all pixels
  [[nodiscard]] double pixel_accuracy() const;               ///< 0 if there is no pixel
  [[nodiscard]] bool has(std::int64_t label) const;          ///< true if the class is in the truth or was predicted
  [[nodiscard]] double iou(std::int64_t label) const;        ///< 0 if !has(label)
  [[nodiscard]] double recall(std::int64_t label) const;     ///< fraction of true pixels predicted; 0 if there are none
  [[nodiscard]] double precision(std::int64_t label) const;  ///< fraction of predictions that are correct; 0 if none
  /// The mean over the classes for which has() is true. 0 if there is no pixel.
  [[nodiscard]] double mean_iou() const;

  [[nodiscard]] std::string bytes() const;
  /// Throws: InternalError if the number of bytes does not fit `classes`.
  [[nodiscard]] static Confusion from_bytes(std::string_view bytes, std::int64_t classes);
  /// The number of bytes in bytes().
  [[nodiscard]] static std::size_t byte_count(std::int64_t classes) noexcept {
    return static_cast<std::size_t>(classes * classes) * sizeof(std::int64_t);
  }

 private:
  std::int64_t classes_;
  std::vector<std::int64_t> pixels_;
};

}  // namespace lockstep::segmentation
