// SPDX-License-Identifier: Apache-2.0
// The loops of losses() on plain memory. An image's logits are upsampled row by row; each call handles a band of rows,
// and the bands depend only on the sizes.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace lockstep::segmentation {

/// Indices of the maps in the arrays below.
enum LossMap { kLabelMap, kPseudoMap, kScribbleMap, kClassMap, kLossMaps };

/// For each pixel of an upsampled axis, its position between two pixels of the small axis, as in libtorch's
/// align_corners.
struct Enlarged {
  Enlarged(std::int64_t small, std::int64_t large);

  std::vector<std::int64_t> before;  ///< the small axis' pixel at or before each pixel
  std::vector<std::int64_t> after;
  std::vector<float> share;  ///< weight of the next pixel of the small axis
};

struct LossShape {
  std::int64_t classes = 0;
  std::int64_t height = 0;  ///< height of the logits
  std::int64_t width = 0;
  const Enlarged* rows = nullptr;  ///< interpolation from `height` to the height of the maps
  const Enlarged* columns = nullptr;
  float smoothing = 0;  ///< smoothing of the pseudo-labels

  /// The number of rows of logits in a band. A band's pixels are those whose row `before` is one of these rows.
  static constexpr std::int64_t kBandRows = 8;
  [[nodiscard]] std::int64_t bands() const { return (height + kBandRows - 1) / kBandRows; }
};

/// One image. Maps are [large height, large width]; a null map means that its term is omitted.
struct LossPicture {
  const float* logits = nullptr;  ///< [classes, height, width]
  std::array<const std::uint8_t*, kLossMaps> maps = {};
};

struct LossSums {
  std::array<double, kLossMaps> sum = {};
  std::array<std::int64_t, kLossMaps> count = {};  ///< number of summands in the mean
};

/// Sums the summands of a band.
[[nodiscard]] LossSums sum_loss_band(const LossShape& shape, const LossPicture& picture, std::int64_t band);

/// Adds the gradient of the sums, times `factors`, to `grad`, which is [classes, kBandRows + 1, width] and holds the
/// rows of the logits starting at `band` * kBandRows.
void add_loss_band_gradient(const LossShape& shape, const LossPicture& picture, std::int64_t band,
                            const std::array<float, kLossMaps>& factors, float* grad);

}  // namespace lockstep::segmentation
