// SPDX-License-Identifier: Apache-2.0
// This file is compiled once for each instruction set (foreach_target.h); the program chooses one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/norm/norm_act_kernel.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must precede highway.h.
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "nn/norm/norm_act_kernel.h"
#include "nn/vector/vector_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::nn {
namespace HWY_NAMESPACE {

template <class Tag>
using V = hn::Vec<Tag>;
template <class Tag>
using M = hn::Mask<Tag>;

// Pixels of a tile, whose channels are summed in registers while its memory stays in the first-level cache.
constexpr std::int64_t kTile = 32;

/// The operation between batch norm and ReLU.
enum class Then { kNothing, kDropout, kResidual };

/// Computes y before ReLU, without dropout's scale: only its sign and, in a window, its order matter to backward.
template <Then kThen, class Tag, class T>
struct Element {
  Tag d;
  const T* x;
  const std::uint8_t* bits;
  const T* residual;

  HWY_INLINE V<Tag> operator()(std::int64_t index, V<Tag> a, V<Tag> b) const {
    const auto y = hn::MulAdd(a, load(d, x + index), b);
    if constexpr (kThen == Then::kDropout) return hn::IfThenElseZero(kept(d, bits, index), y);
    if constexpr (kThen == Then::kResidual) return hn::Add(y, load(d, residual + index));
    return y;
  }
};

/// The pixels of a tile, its first channel, and the sums of the image.
struct Tile {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t channel;
  float* sums;
};

/// Calls f(d, count, channel) for every group of `count` vectors of channels; `count` is a constant. A group reads
/// memory in order; single vectors would read each tile several times, one pixel after another.
template <class F>
HWY_INLINE void for_channel_groups(std::int64_t channels, F f) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t c = 0;
  for (; c + 8 * lanes <= channels; c += 8 * lanes) f(d, std::integral_constant<std::int64_t, 8>(), c);
  for (; c + 2 * lanes <= channels; c += 2 * lanes) f(d, std::integral_constant<std::int64_t, 2>(), c);
  for (; c + lanes <= channels; c += lanes) f(d, std::integral_constant<std::int64_t, 1>(), c);
  const hn::CappedTag<float, 8> rest;
  for (; c < channels; c += static_cast<std::int64_t>(hn::Lanes(rest))) {
    f(rest, std::integral_constant<std::int64_t, 1>(), c);
  }
}

template <std::int64_t kCount, class Tag, class T>
HWY_INLINE void statistics_tile(Tag d, const T* x, std::int64_t channels, const float* shift, const Tile& tile) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V<Tag> sum[kCount];
  V<Tag> squares[kCount];
  for (std::int64_t i = 0; i < kCount; ++i) sum[i] = squares[i] = hn::Zero(d);
  for (std::int64_t p = tile.begin; p < tile.end; ++p) {
    for (std::int64_t i = 0; i < kCount; ++i) {
      const std::int64_t c = tile.channel + i * lanes;
      const auto v = hn::Sub(load(d, x + p * channels + c), hn::LoadU(d, shift + c));
      sum[i] = hn::Add(sum[i], v);
      squares[i] = hn::MulAdd(v, v, squares[i]);
    }
  }
  for (std::int64_t i = 0; i < kCount; ++i) {
    add_to(sum[i], d, tile.sums + tile.channel + i * lanes);
    add_to(squares[i], d, tile.sums + channels + tile.channel + i * lanes);
  }
}

template <class T>
void statistics(const T* x, const NormActShape& shape, const float* shift, float* sums) {
  const std::int64_t pixels = shape.height * shape.width;
  std::fill(sums, sums + 2 * shape.channels, 0.0F);
  for (std::int64_t begin = 0; begin < pixels; begin += kTile) {
    const std::int64_t end = std::min(begin + kTile, pixels);
    for_channel_groups(shape.channels, [&](auto d, auto count, std::int64_t c) HWY_ATTR {
      statistics_tile<count>(d, x, shape.channels, shift, {begin, end, c, sums});
    });
  }
}

/// One image's buffers in one element type.
template <class T>
struct Image {
  const T* x;
  const std::uint8_t* bits;  ///< dropout bits of this image
  const T* residual;         ///< added to this image, or null
  NormActShape shape;
  NormActChannels by;
  float scale;

  [[nodiscard]] std::int64_t row() const { return shape.width * shape.channels; }
};

template <class T>
Image<T> image_of(const NormActForward& pass, const NormActImage& image) {
  const std::uint8_t* bits = pass.dropout.kept;
  return {.x = static_cast<const T*>(image.x),
          .bits = bits == nullptr ? nullptr : bits + image.index * pass.shape.in_image() / 8,
          .residual = static_cast<const T*>(image.residual),
          .shape = pass.shape,
          .by = pass.channels,
          .scale = pass.dropout.scale};
}

template <Then kThen, class T>
void forward_plain(const Image<T>& image, T* out) {
  const std::int64_t channels = image.shape.channels;
  const std::int64_t pixels = image.shape.height * image.shape.width;
  for (std::int64_t p = 0; p < pixels; ++p) {
    for_channels(channels, [&](auto d, std::int64_t c) HWY_ATTR {
      const Element<kThen, decltype(d), T> y{d, image.x, image.bits, image.residual};
      const std::int64_t at = p * channels + c;
      auto z = relu(d, y(at, hn::LoadU(d, image.by.a + c), hn::LoadU(d, image.by.b + c)));
      if constexpr (kThen == Then::kDropout) z = hn::Mul(z, hn::Set(d, image.scale));
      store(z, d, out + at);
    });
  }
}

template <Then kThen, class T>
void forward_pool(const Image<T>& image, T* out) {
  const std::int64_t channels = image.shape.channels;
  const std::int64_t row = image.row();
  for (std::int64_t oy = 0; oy < image.shape.out_height(); ++oy) {
    for (std::int64_t ox = 0; ox < image.shape.out_width(); ++ox) {
      const std::int64_t window = 2 * oy * row + 2 * ox * channels;
      for_channels(channels, [&](auto d, std::int64_t c) HWY_ATTR {
        const Element<kThen, decltype(d), T> y{d, image.x, image.bits, image.residual};
        const auto a = hn::LoadU(d, image.by.a + c);
        const auto b = hn::LoadU(d, image.by.b + c);
        const std::int64_t at = window + c;
        const auto upper = hn::Max(y(at, a, b), y(at + channels, a, b));
        const auto lower = hn::Max(y(at + row, a, b), y(at + row + channels, a, b));
        auto z = relu(d, hn::Max(upper, lower));
        if constexpr (kThen == Then::kDropout) z = hn::Mul(z, hn::Set(d, image.scale));
        store(z, d, out + (oy * image.shape.out_width() + ox) * channels + c);
      });
    }
  }
}

/// The four elements of a window: x, and masks of the elements that receive the gradient.
template <class Tag>
struct Window {
  HWY_INLINE Window() {}  // NOLINT(*-use-equals-default): GCC compiles a default one without NEON's instructions

  V<Tag> x[4];
  M<Tag> mine[4];  ///< at most one element; none if the largest is not above 0
};

template <Then kThen, class Tag, class T>
HWY_INLINE Window<Tag> window_at(Tag d, const Image<T>& image, std::int64_t at, V<Tag> a, V<Tag> b) {
  const std::int64_t places[4] = {at, at + image.shape.channels, at + image.row(),
                                  at + image.row() + image.shape.channels};
  Window<Tag> window;
  V<Tag> y[4];
  for (int i = 0; i < 4; ++i) {
    window.x[i] = load(d, image.x + places[i]);
    y[i] = hn::MulAdd(a, window.x[i], b);
    if constexpr (kThen == Then::kDropout) y[i] = hn::IfThenElseZero(kept(d, image.bits, places[i]), y[i]);
  }
  const auto largest = hn::Max(hn::Max(y[0], y[1]), hn::Max(y[2], y[3]));
  auto open = hn::Gt(largest, hn::Zero(d));
  for (int i = 0; i < 4; ++i) {
    window.mine[i] = hn::And(open, hn::Eq(y[i], largest));
    open = hn::AndNot(window.mine[i], open);
  }
  return window;
}

/// Sums `kCount` vectors of channels over a tile of pixels.
template <std::int64_t kCount, Then kThen, class Tag, class T>
HWY_INLINE void sums_tile(Tag d, const Image<T>& image, const T* grad, const float* mean, const Tile& tile) {
  const std::int64_t channels = image.shape.channels;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Element<kThen, Tag, T> y{d, image.x, image.bits, image.residual};
  V<Tag> plain[kCount];
  V<Tag> times_x[kCount];
  for (std::int64_t i = 0; i < kCount; ++i) plain[i] = times_x[i] = hn::Zero(d);
  for (std::int64_t p = tile.begin; p < tile.end; ++p) {
    for (std::int64_t i = 0; i < kCount; ++i) {
      const std::int64_t c = tile.channel + i * lanes;
      const std::int64_t at = p * channels + c;
      const auto open = hn::Gt(y(at, hn::LoadU(d, image.by.a + c), hn::LoadU(d, image.by.b + c)), hn::Zero(d));
      const auto g = hn::IfThenElseZero(open, load(d, grad + at));
      plain[i] = hn::Add(plain[i], g);
      times_x[i] = hn::MulAdd(g, hn::Sub(load(d, image.x + at), hn::LoadU(d, mean + c)), times_x[i]);
    }
  }
  for (std::int64_t i = 0; i < kCount; ++i) {
    add_to(plain[i], d, tile.sums + tile.channel + i * lanes);
    add_to(times_x[i], d, tile.sums + channels + tile.channel + i * lanes);
  }
}

template <Then kThen, class T>
void sums_plain(const Image<T>& image, const T* grad, const float* mean, float* sums) {
  const std::int64_t pixels = image.shape.height * image.shape.width;
  for (std::int64_t begin = 0; begin < pixels; begin += kTile) {
    const std::int64_t end = std::min(begin + kTile, pixels);
    for_channel_groups(image.shape.channels, [&](auto d, auto count, std::int64_t c) HWY_ATTR {
      sums_tile<count, kThen>(d, image, grad, mean, {begin, end, c, sums});
    });
  }
}

template <Then kThen, class T>
void sums_pool(const Image<T>& image, const T* grad, const float* mean, float* sums) {
  const std::int64_t channels = image.shape.channels;
  const std::int64_t width = image.shape.out_width();
  for (std::int64_t oy = 0; oy < image.shape.out_height(); ++oy) {
    for_channels(channels, [&](auto d, std::int64_t c) HWY_ATTR {
      const auto a = hn::LoadU(d, image.by.a + c);
      const auto b = hn::LoadU(d, image.by.b + c);
      const auto middle = hn::LoadU(d, mean + c);
      auto plain = hn::Zero(d);
      auto times_x = hn::Zero(d);
      for (std::int64_t ox = 0; ox < width; ++ox) {
        const auto window = window_at<kThen>(d, image, 2 * oy * image.row() + 2 * ox * channels + c, a, b);
        const auto g = load(d, grad + (oy * width + ox) * channels + c);
        for (int i = 0; i < 4; ++i) {
          const auto own_gradient = hn::IfThenElseZero(window.mine[i], g);
          plain = hn::Add(plain, own_gradient);
          times_x = hn::MulAdd(own_gradient, hn::Sub(window.x[i], middle), times_x);
        }
      }
      add_to(plain, d, sums + c);
      add_to(times_x, d, sums + channels + c);
    });
  }
}

template <Then kThen, class T>
void backward_plain(const Image<T>& image, const T* grad, const NormActGradient& factors, T* out, T* to_residual) {
  const std::int64_t channels = image.shape.channels;
  const std::int64_t pixels = image.shape.height * image.shape.width;
  for (std::int64_t p = 0; p < pixels; ++p) {
    for_channels(channels, [&](auto d, std::int64_t c) HWY_ATTR {
      const Element<kThen, decltype(d), T> y{d, image.x, image.bits, image.residual};
      const std::int64_t at = p * channels + c;
      const auto open = hn::Gt(y(at, hn::LoadU(d, image.by.a + c), hn::LoadU(d, image.by.b + c)), hn::Zero(d));
      const auto g = hn::IfThenElseZero(open, load(d, grad + at));
      if constexpr (kThen == Then::kResidual) store(g, d, to_residual + at);
      const auto straight =
          hn::MulAdd(hn::LoadU(d, factors.dp + c), load(d, image.x + at), hn::LoadU(d, factors.dq + c));
      store(hn::MulAdd(hn::LoadU(d, factors.da + c), g, straight), d, out + at);
    });
  }
}

/// Computes the gradient of elements outside all windows, which affect only the statistics.
template <class T>
void backward_outside(const Image<T>& image, std::int64_t begin, std::int64_t end, const NormActGradient& factors,
                      T* out) {
  const std::int64_t channels = image.shape.channels;
  for (std::int64_t pixel = begin; pixel < end; pixel += channels) {
    for_channels(channels, [&](auto d, std::int64_t c) HWY_ATTR {
      const std::int64_t at = pixel + c;
      store(hn::MulAdd(hn::LoadU(d, factors.dp + c), load(d, image.x + at), hn::LoadU(d, factors.dq + c)), d, out + at);
    });
  }
}

template <Then kThen, class T>
void backward_pool(const Image<T>& image, const T* grad, const NormActGradient& factors, T* out) {
  const std::int64_t channels = image.shape.channels;
  const std::int64_t row = image.row();
  const std::int64_t width = image.shape.out_width();
  for (std::int64_t oy = 0; oy < image.shape.out_height(); ++oy) {
    for (std::int64_t ox = 0; ox < width; ++ox) {
      for_channels(channels, [&](auto d, std::int64_t c) HWY_ATTR {
        const std::int64_t at = 2 * oy * row + 2 * ox * channels + c;
        const std::int64_t places[4] = {at, at + channels, at + row, at + row + channels};
        const auto window = window_at<kThen>(d, image, at, hn::LoadU(d, image.by.a + c), hn::LoadU(d, image.by.b + c));
        const auto g = hn::Mul(hn::LoadU(d, factors.da + c), load(d, grad + (oy * width + ox) * channels + c));
        const auto p = hn::LoadU(d, factors.dp + c);
        const auto q = hn::LoadU(d, factors.dq + c);
        for (int i = 0; i < 4; ++i) {
          store(hn::Add(hn::MulAdd(p, window.x[i], q), hn::IfThenElseZero(window.mine[i], g)), d, out + places[i]);
        }
      });
    }
    for (std::int64_t y = 2 * oy; y < 2 * oy + 2; ++y) {
      backward_outside(image, y * row + 2 * width * channels, (y + 1) * row, factors, out);
    }
  }
  backward_outside(image, 2 * image.shape.out_height() * row, image.shape.height * row, factors, out);
}

template <class T>
void run_forward(const NormActForward& pass, const NormActImage& source, void* out) {
  const Image<T> image = image_of<T>(pass, source);
  auto* to = static_cast<T*>(out);
  if (pass.shape.pool) {
    image.bits == nullptr ? forward_pool<Then::kNothing>(image, to) : forward_pool<Then::kDropout>(image, to);
  } else if (image.residual != nullptr) {
    forward_plain<Then::kResidual>(image, to);
  } else {
    image.bits == nullptr ? forward_plain<Then::kNothing>(image, to) : forward_plain<Then::kDropout>(image, to);
  }
}

template <class T>
void run_sums(const NormActForward& pass, const Image<T>& image, const void* grad, const float* mean, float* sums) {
  std::fill(sums, sums + 2 * pass.shape.channels, 0.0F);
  const auto* gradient = static_cast<const T*>(grad);
  if (pass.shape.pool) {
    image.bits == nullptr ? sums_pool<Then::kNothing>(image, gradient, mean, sums)
                          : sums_pool<Then::kDropout>(image, gradient, mean, sums);
  } else if (image.residual != nullptr) {
    sums_plain<Then::kResidual>(image, gradient, mean, sums);
  } else {
    image.bits == nullptr ? sums_plain<Then::kNothing>(image, gradient, mean, sums)
                          : sums_plain<Then::kDropout>(image, gradient, mean, sums);
  }
}

template <class T>
void run_backward(const NormActForward& pass, const Image<T>& image, const void* grad, const NormActGradient& factors,
                  const NormActInto& into) {
  const auto* gradient = static_cast<const T*>(grad);
  auto* to = static_cast<T*>(into.x);
  if (pass.shape.pool) {
    image.bits == nullptr ? backward_pool<Then::kNothing>(image, gradient, factors, to)
                          : backward_pool<Then::kDropout>(image, gradient, factors, to);
  } else if (image.residual != nullptr) {
    backward_plain<Then::kResidual>(image, gradient, factors, to, static_cast<T*>(into.residual));
  } else {
    image.bits == nullptr ? backward_plain<Then::kNothing>(image, gradient, factors, to, to)
                          : backward_plain<Then::kDropout>(image, gradient, factors, to, to);
  }
}

void statistics_of(NormActType type, const void* image, const NormActShape& shape, const float* shift, float* sums) {
  if (type == NormActType::kFloat) return statistics(static_cast<const float*>(image), shape, shift, sums);
  statistics(static_cast<const std::uint16_t*>(image), shape, shift, sums);
}

void forward_of(const NormActForward& pass, const NormActImage& image, void* out) {
  if (pass.type == NormActType::kFloat) return run_forward<float>(pass, image, out);
  run_forward<std::uint16_t>(pass, image, out);
}

void sums_of(const NormActForward& pass, const NormActImage& image, const void* grad, const float* mean, float* sums) {
  if (pass.type == NormActType::kFloat) return run_sums(pass, image_of<float>(pass, image), grad, mean, sums);
  run_sums(pass, image_of<std::uint16_t>(pass, image), grad, mean, sums);
}

void backward_of(const NormActForward& pass, const NormActImage& image, const void* grad,
                 const NormActGradient& factors, const NormActInto& into) {
  if (pass.type == NormActType::kFloat) return run_backward(pass, image_of<float>(pass, image), grad, factors, into);
  run_backward(pass, image_of<std::uint16_t>(pass, image), grad, factors, into);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::nn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::nn {

HWY_EXPORT(statistics_of);
HWY_EXPORT(forward_of);
HWY_EXPORT(sums_of);
HWY_EXPORT(backward_of);

void norm_act_statistics(NormActType type, const void* image, const NormActShape& shape, const float* shift,
                         float* sums_2C) {
  HWY_DYNAMIC_DISPATCH(statistics_of)(type, image, shape, shift, sums_2C);
}

void norm_act_forward(const NormActForward& pass, const NormActImage& image, void* out) {
  HWY_DYNAMIC_DISPATCH(forward_of)(pass, image, out);
}

void norm_act_backward_sums(const NormActForward& pass, const NormActImage& image, const void* grad, const float* mean,
                            float* sums_2C) {
  HWY_DYNAMIC_DISPATCH(sums_of)(pass, image, grad, mean, sums_2C);
}

void norm_act_backward(const NormActForward& pass, const NormActImage& image, const void* grad,
                       const NormActGradient& factors, const NormActInto& into) {
  HWY_DYNAMIC_DISPATCH(backward_of)(pass, image, grad, factors, into);
}

}  // namespace lockstep::nn
#endif
