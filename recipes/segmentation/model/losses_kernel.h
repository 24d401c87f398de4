// SPDX-License-Identifier: Apache-2.0
// The loops behind losses(): plain memory in, plain memory out. A picture's logits are enlarged row by row; a band of
// rows is one call, and bands depend on the sizes only.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace lockstep::segmentation {

/// The maps' places in the arrays below.
enum LossMap { kLabelMap, kPseudoMap, kScribbleMap, kClassMap, kLossMaps };

/// Where the pixels of an enlarged axis lie between those of the small one, as libtorch's align_corners has it.
struct Enlarged {
  Enlarged(std::int64_t small, std::int64_t large);

  std::vector<std::int64_t> before;  ///< the small axis' pixel at or before each
  std::vector<std::int64_t> after;
  std::vector<float> share;  ///< shares of `after`
};

struct LossShape {
  std::int64_t classes = 0;
  std::int64_t height = 0;  ///< height of the logits
  std::int64_t width = 0;
  const Enlarged* rows = nullptr;  ///< to the maps' height
  const Enlarged* columns = nullptr;
  float smoothing = 0;  ///< smoothing of the pseudo-labels

  /// Rows of the logits that a band begins its pixels at.
  static constexpr std::int64_t kBandRows = 8;
  [[nodiscard]] std::int64_t bands() const { return (height + kBandRows - 1) / kBandRows; }
};

/// One picture. Maps [large height, large width]; null: this term is left out.
struct LossPicture {
  const float* logits = nullptr;  ///< [classes, height, width]
  std::array<const std::uint8_t*, kLossMaps> maps = {};
};

struct LossSums {
  std::array<double, kLossMaps> sum = {};
  std::array<std::int64_t, kLossMaps> count = {};  ///< number of the summands in the mean
};

/// Adds a band's summands up.
[[nodiscard]] LossSums sum_loss_band(const LossShape& shape, const LossPicture& picture, std::int64_t band);

/// Adds the gradient of the sums times `factors` to `grad`, [classes, kBandRows + 1, width]: the rows of the logits
/// from band kBandRows on.
void add_loss_band_gradient(const LossShape& shape, const LossPicture& picture, std::int64_t band,
                            const std::array<float, kLossMaps>& factors, float* grad);

}  // namespace lockstep::segmentation
