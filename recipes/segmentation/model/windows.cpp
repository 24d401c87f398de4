// SPDX-License-Identifier: Apache-2.0
#include "segmentation/model/windows.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"

namespace lockstep::segmentation {
namespace {

at::Tensor resized(const at::Tensor& images, std::int64_t height, std::int64_t width) {
  if (images.size(2) == height && images.size(3) == width) return images;
  return at::upsample_bilinear2d(images, {height, width}, /*align_corners=*/true);
}

/// The softmax over the classes, resized to the views.
at::Tensor shares_of(const at::Tensor& views, const LogitsOf& logits) {
  return at::softmax(resized(logits(views).to(at::kFloat), views.size(2), views.size(3)), 1);
}

at::Tensor shares_with_mirror(const at::Tensor& views, const LogitsOf& logits, bool flip) {
  const at::Tensor shares = shares_of(views, logits);
  if (!flip) return shares;
  return (shares + shares_of(views.flip({3}), logits).flip({3})) / 2;
}

struct Place {
  std::int64_t y = 0;
  std::int64_t x = 0;
};

/// Evaluates one image [1, 3, h, w] at one scale.
at::Tensor through_windows(const at::Tensor& picture, const LogitsOf& logits, const WindowOptions& options) {
  const std::int64_t height = picture.size(2);
  const std::int64_t width = picture.size(3);
  if (options.window == 0 || std::max(height, width) <= options.window) {
    return shares_with_mirror(picture, logits, options.flip);
  }
  const std::int64_t high = std::min(options.window, height);
  const std::int64_t wide = std::min(options.window, width);
  std::vector<Place> places;
  for (const std::int64_t y : window_starts(height, options.window, options.overlap)) {
    for (const std::int64_t x : window_starts(width, options.window, options.overlap)) places.push_back({y, x});
  }
  at::Tensor sum;
  const at::Tensor seen = at::zeros({1, 1, height, width}, picture.options());
  const auto batch = static_cast<std::size_t>(std::max<std::int64_t>(options.batch, 1));
  for (std::size_t begin = 0; begin < places.size(); begin += batch) {
    const std::size_t end = std::min(begin + batch, places.size());
    std::vector<at::Tensor> views;
    for (std::size_t i = begin; i < end; ++i) {
      views.push_back(picture.narrow(2, places[i].y, high).narrow(3, places[i].x, wide));
    }
    const at::Tensor shares = shares_with_mirror(at::cat(views), logits, options.flip);
    if (!sum.defined()) sum = at::zeros({1, shares.size(1), height, width}, shares.options());
    for (std::size_t i = begin; i < end; ++i) {
      const auto view = static_cast<std::int64_t>(i - begin);
      sum.narrow(2, places[i].y, high).narrow(3, places[i].x, wide).add_(shares.narrow(0, view, 1));
      seen.narrow(2, places[i].y, high).narrow(3, places[i].x, wide).add_(1);
    }
  }
  return sum / seen;
}

std::int64_t scaled(std::int64_t side, double factor) {
  return std::max<std::int64_t>(std::llround(static_cast<double>(side) * factor), 1);
}

}  // namespace

std::vector<std::int64_t> window_starts(std::int64_t length, std::int64_t window, double overlap) {
  if (window <= 0) throw UsageError(fmt::format("the window is {} pixels; it must be positive", window));
  if (!(overlap >= 0 && overlap < 1)) {
    throw UsageError(fmt::format("windows overlap by {} of their size; it must be 0 or more, and below 1", overlap));
  }
  if (length <= window) return {0};
  const auto stride =
      std::max<std::int64_t>(static_cast<std::int64_t>(std::floor(static_cast<double>(window) * (1 - overlap))), 1);
  const std::int64_t gaps = (length - window + stride - 1) / stride;
  std::vector<std::int64_t> starts;
  for (std::int64_t i = 0; i <= gaps; ++i) starts.push_back((length - window) * i / gaps);
  return starts;
}

at::Tensor class_shares(const at::Tensor& picture, const LogitsOf& logits, const WindowOptions& options) {
  const at::Tensor whole = picture.unsqueeze(0);
  const std::int64_t height = picture.size(1);
  const std::int64_t width = picture.size(2);
  const double base = options.base_size == 0
                          ? 1.0
                          : static_cast<double>(options.base_size) / static_cast<double>(std::max(height, width));
  at::Tensor sum;
  for (const double scale : options.scales) {
    if (!(scale > 0)) throw UsageError(fmt::format("the image scale is {}", scale), "scales must be above 0");
    const double factor = base * scale;
    const at::Tensor view = resized(whole, scaled(height, factor), scaled(width, factor));
    const at::Tensor shares = resized(through_windows(view, logits, options), height, width);
    sum = sum.defined() ? sum + shares : shares;
  }
  if (!sum.defined()) throw UsageError("there is no scale to evaluate images at", "set eval.scales=[1]");
  return (sum / static_cast<double>(options.scales.size())).squeeze(0);
}

}  // namespace lockstep::segmentation
