// SPDX-License-Identifier: Apache-2.0
// Computes the weights of resampling, and runs its two passes: along x to 8 bits, then along y.
#include "lockstep/data/resample.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/pixel_kernel.h"
#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using data::ResampleAxis;

struct Filter {
  double radius;
  double (*weight)(double);
};

double triangle(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

double cubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0.0;
}

Filter filter_of(Interpolation interpolation) {
  return interpolation == Interpolation::kBicubic ? Filter{2.0, cubic} : Filter{1.0, triangle};
}

/// One axis of the image, and the part being resampled.
struct Span {
  std::int64_t size;  ///< pixels of the image
  double begin;       ///< start of the part
  double end;

  [[nodiscard]] bool is_kept(std::int64_t out) const {
    return out == size && begin == 0.0 && end == static_cast<double>(size);
  }
};

std::int32_t fixed_point(double weight) {
  return static_cast<std::int32_t>((weight < 0 ? -0.5 : 0.5) + weight * (1 << 22));
}

ResampleAxis weights_of(const Span& span, std::int64_t out, const Filter& filter) {
  const double scale = (span.end - span.begin) / static_cast<double>(out);
  const double wide = std::max(scale, 1.0);
  const double radius = filter.radius * wide;
  ResampleAxis axis;
  axis.taps = static_cast<std::int32_t>(std::ceil(radius)) * 2 + 1;
  axis.weights.resize(static_cast<std::size_t>(out * axis.taps));
  std::vector<double> weights(static_cast<std::size_t>(axis.taps));
  for (std::int64_t i = 0; i < out; ++i) {
    const double center = span.begin + (static_cast<double>(i) + 0.5) * scale;
    const auto first = static_cast<std::int32_t>(std::max(center - radius + 0.5, 0.0));
    const auto last = std::min(static_cast<std::int32_t>(center + radius + 0.5), static_cast<std::int32_t>(span.size));
    double sum = 0;
    for (std::int32_t j = first; j < last; ++j) sum += weights[j - first] = filter.weight((j - center + 0.5) / wide);
    for (std::int32_t j = 0; j < last - first; ++j) {
      axis.weights[static_cast<std::size_t>(i * axis.taps + j)] = fixed_point(sum != 0 ? weights[j] / sum : weights[j]);
    }
    axis.first.push_back(first);
    axis.count.push_back(last - first);
  }
  return axis;
}

Image empty_image(ImageSize size, std::int64_t channels) {
  Image image{size, channels, {}};
  image.pixels.resize(static_cast<std::size_t>(size.width * size.height * channels));
  return image;
}

/// The rows between the two passes, in a buffer that the thread reuses.
struct Between {
  std::vector<std::uint8_t> memory;
  data::ByteRows rows;

  void make(std::int64_t row_bytes, std::int64_t count) {
    rows.stride = (row_bytes + 15) / 16 * 16;
    const auto bytes = static_cast<std::size_t>(rows.stride * ((count + 15) / 16 * 16));
    memory.resize(std::max(memory.size(), bytes));
    rows.data = memory.data();
  }
};

void copy_rows(const PixelView& view, std::int64_t first, std::int64_t count, data::ByteRows out) {
  for (std::int64_t y = 0; y < count; ++y)
    std::copy_n(view.row(first + y), view.row_bytes(), out.data + y * out.stride);
}

Image smooth(const PixelView& view, const Span& x, const Span& y, ImageSize size, const Filter& filter) {
  static thread_local Between between;
  Image image = empty_image(size, view.channels);
  const std::int64_t row_bytes = size.width * view.channels;
  const ResampleAxis rows = y.is_kept(size.height) ? ResampleAxis{} : weights_of(y, size.height, filter);
  const std::int64_t first = rows.size() == 0 ? 0 : rows.first.front();
  const std::int64_t count = rows.size() == 0 ? size.height : rows.first.back() + rows.count.back() - first;
  between.make(row_bytes, count);
  if (x.is_kept(size.width)) {
    copy_rows(view, first, count, between.rows);
  } else {
    data::resample_rows(view, first, count, weights_of(x, size.width, filter), between.rows);
  }
  if (rows.size() == 0) {
    const PixelView done{.owner = nullptr,
                         .data = between.rows.data,
                         .size = size,
                         .channels = view.channels,
                         .stride = between.rows.stride};
    copy_rows(done, 0, size.height, {image.pixels.data(), row_bytes});
  } else {
    data::resample_columns({between.rows.data, between.rows.stride, first, row_bytes, image.pixels.data()}, rows);
  }
  return image;
}

std::vector<std::int64_t> nearest_of(const Span& span, std::int64_t out) {
  const double scale = (span.end - span.begin) / static_cast<double>(out);
  std::vector<std::int64_t> from;
  double at = span.begin + scale * 0.5;
  for (std::int64_t i = 0; i < out; ++i, at += scale) {
    from.push_back(std::min(static_cast<std::int64_t>(at), span.size - 1));
  }
  return from;
}

Image nearest(const PixelView& view, const Span& x, const Span& y, ImageSize size) {
  Image image = empty_image(size, view.channels);
  const std::vector<std::int64_t> columns = nearest_of(x, size.width);
  std::uint8_t* to = image.pixels.data();
  for (const std::int64_t row : nearest_of(y, size.height)) {
    const std::uint8_t* from = view.row(row);
    for (const std::int64_t column : columns) to = std::copy_n(from + column * view.channels, view.channels, to);
  }
  return image;
}

void check(const PixelView& view, const Box& part, ImageSize size) {
  if (size.width <= 0 || size.height <= 0) {
    throw UsageError(fmt::format("an image cannot be resampled to {} x {} pixels", size.width, size.height));
  }
  const bool inside = part.x1 >= 0 && part.y1 >= 0 && part.x2 > part.x1 && part.y2 > part.y1 &&
                      part.x2 <= static_cast<float>(view.size.width) && part.y2 <= static_cast<float>(view.size.height);
  if (!inside) {
    throw UsageError(fmt::format("({}, {}) - ({}, {}) is not inside an image of {} x {} pixels", part.x1, part.y1,
                                 part.x2, part.y2, view.size.width, view.size.height));
  }
  if (view.channels != 1 && view.channels != 3) {
    throw UsageError(fmt::format("cannot resample an image with {} channels, only with 1 or 3", view.channels));
  }
}

}  // namespace

Image resample(const PixelView& view, const Box& part, ImageSize size, Interpolation interpolation) {
  check(view, part, size);
  const Span x{view.size.width, part.x1, part.x2};
  const Span y{view.size.height, part.y1, part.y2};
  if (interpolation == Interpolation::kNearest) return nearest(view, x, y, size);
  return smooth(view, x, y, size, filter_of(interpolation));
}

Image resample(const PixelView& view, ImageSize size, Interpolation interpolation) {
  const Box whole{0, 0, static_cast<float>(view.size.width), static_cast<float>(view.size.height)};
  return resample(view, whole, size, interpolation);
}

}  // namespace lockstep
