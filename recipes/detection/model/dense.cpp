// SPDX-License-Identifier: Apache-2.0
#include "detection/model/dense.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

namespace lockstep::detection {
namespace {

struct Scale {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t first = 0;  ///< index of its first position
};

std::vector<Scale> scales_of(const at::Tensor& sizes) {
  const at::Tensor plain = sizes.cpu().contiguous();
  const auto* numbers = plain.data_ptr<std::int64_t>();
  std::vector<Scale> scales;
  std::int64_t first = 0;
  for (std::int64_t i = 0; i < plain.size(0); ++i) {
    scales.push_back({.height = numbers[2 * i], .width = numbers[2 * i + 1], .first = first});
    first += scales.back().height * scales.back().width;
  }
  return scales;
}

/// The nearby positions along one axis: the first, and one past the last.
struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

Span near(float middle, float size, std::int64_t cells) {
  constexpr float kReach = 1.5F;
  const auto count = static_cast<float>(cells);
  const std::int64_t own = std::clamp<std::int64_t>(static_cast<std::int64_t>(middle * count), 0, cells - 1);
  const float reach = std::min(kReach, size * count / 2);
  // The cells whose centres are at most `reach` away.
  const auto begin = static_cast<std::int64_t>(std::ceil(middle * count - reach - 0.5F));
  const auto end = static_cast<std::int64_t>(std::floor(middle * count + reach - 0.5F)) + 1;
  return {.begin = std::clamp<std::int64_t>(begin, 0, own), .end = std::clamp(end, own + 1, cells)};
}

std::size_t best_scale(const float* box, std::size_t scales) {
  const double size = std::sqrt(std::max(1e-6, static_cast<double>(box[2]) * static_cast<double>(box[3])));
  const double doublings = std::log2(size / anchor_size(0));
  return static_cast<std::size_t>(std::clamp<double>(std::round(doublings), 0, static_cast<double>(scales - 1)));
}

Pairs of_image(const std::vector<Scale>& scales, const float* boxes, std::int64_t count) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  // Sorts the smallest objects last, so that they take the positions they share with others.
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::int64_t i) { return boxes[4 * i + 2] * boxes[4 * i + 3]; });
  std::map<std::int64_t, std::int64_t> object_at;
  for (const std::int64_t object : order) {
    const float* box = boxes + 4 * object;
    const Scale& scale = scales[best_scale(box, scales.size())];
    const Span columns = near(box[0], box[2], scale.width);
    const Span rows = near(box[1], box[3], scale.height);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        object_at[scale.first + row * scale.width + column] = object;
      }
    }
  }
  Pairs pairs;
  for (const auto& [position, object] : object_at) pairs.push_back({.query = position, .object = object});
  return pairs;
}

}  // namespace

double anchor_size(std::int64_t scale) { return 0.05 * std::exp2(static_cast<double>(scale)); }

Matches dense_matches(const at::Tensor& sizes, const PaddedTargets& targets) {
  const std::vector<Scale> scales = scales_of(sizes);
  const at::Tensor& boxes = targets.host_boxes;
  Matches matches;
  for (std::size_t i = 0; i < targets.counts.size(); ++i) {
    const float* first = boxes.data_ptr<float>() + static_cast<std::int64_t>(i) * boxes.size(1) * 4;
    matches.push_back(of_image(scales, first, targets.counts[i]));
  }
  return matches;
}

}  // namespace lockstep::detection
