// SPDX-License-Identifier: Apache-2.0
// The maps of a training sample besides its image, in the order of Batch::target's second dimension.
#pragma once

#include <cstdint>

namespace lockstep::segmentation {

/// The value of a pixel without a class, in every label map.
inline constexpr std::uint8_t kUnlabelled = 255;

/// The maps of a sample, uint8, in this order. Labels, which are full masks or scribbles, are always present, as plane
/// 0. The index of an omitted map is -1.
struct Planes {
  bool pseudo_labels = false;
  bool scribble_distances = false;  ///< 255 on a scribble, falling with the distance
  bool class_distances = false;     ///< 0 on a contour of the pseudo-label, rising with the distance

  [[nodiscard]] std::int64_t count() const noexcept {
    return 1 + (pseudo_labels ? 1 : 0) + (scribble_distances ? 1 : 0) + (class_distances ? 1 : 0);
  }
  [[nodiscard]] static std::int64_t labels() noexcept { return 0; }
  [[nodiscard]] std::int64_t pseudo() const noexcept { return pseudo_labels ? 1 : -1; }
  [[nodiscard]] std::int64_t scribble_distance() const noexcept {
    return scribble_distances ? 1 + (pseudo_labels ? 1 : 0) : -1;
  }
  [[nodiscard]] std::int64_t class_distance() const noexcept {
    return class_distances ? 1 + (pseudo_labels ? 1 : 0) + (scribble_distances ? 1 : 0) : -1;
  }
};

}  // namespace lockstep::segmentation
