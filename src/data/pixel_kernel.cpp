// SPDX-License-Identifier: Apache-2.0
// This file is compiled once for each instruction set (foreach_target.h); the program chooses one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/pixel_kernel.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must precede highway.h.
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "data/pixel_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::data {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Ints = hn::CappedTag<std::int32_t, 16>;
using Floats = hn::CappedTag<float, 16>;
using IntBytes = hn::Rebind<std::uint8_t, Ints>;

constexpr std::int64_t kBlock = 16;  // pixels per round

/// 16 pixels, channel by channel.
template <int kChannels>
struct Planes {
  alignas(64) std::uint8_t of[kChannels][kBlock];

  HWY_INLINE void load(const std::uint8_t* pixels);
};

// Operations that move 16 single bytes at a time. Highway's scalar target only has vectors of one lane.
#if HWY_TARGET == HWY_SCALAR

template <int kChannels>
HWY_INLINE void Planes<kChannels>::load(const std::uint8_t* pixels) {
  for (int i = 0; i < kChannels * kBlock; ++i) of[i % kChannels][i / kChannels] = pixels[i];
}

template <int kChannels>
HWY_INLINE void mirror_block(const std::uint8_t* from, std::uint8_t* to) {
  for (int i = 0; i < kBlock; ++i) std::memcpy(to + (kBlock - 1 - i) * kChannels, from + i * kChannels, kChannels);
}

template <class From, class To>
HWY_INLINE void transpose(const From& from, const To& to) {
  for (int r = 0; r < 16; ++r) {
    for (int i = 0; i < 16; ++i) to(i)[r] = from(r)[i];
  }
}

template <int kChannels>
void paeth(std::uint8_t* row, const std::uint8_t* above, std::size_t bytes) {
  int left[kChannels] = {};
  int corner[kChannels] = {};
  for (std::size_t i = 0; i < bytes; ++i) {
    const std::size_t c = i % kChannels;
    const int up = above[i];
    const int to_left = std::abs(up - corner[c]);
    const int to_up = std::abs(left[c] - corner[c]);
    const int to_corner = std::abs(left[c] + up - 2 * corner[c]);
    const int nearer = to_up <= to_corner ? up : corner[c];
    row[i] = static_cast<std::uint8_t>(row[i] + (to_left <= to_up && to_left <= to_corner ? left[c] : nearer));
    left[c] = row[i];
    corner[c] = up;
  }
}

#else

using Bytes = hn::Full128<std::uint8_t>;

template <int kChannels>
HWY_INLINE void Planes<kChannels>::load(const std::uint8_t* pixels) {
  const Bytes d;
  if constexpr (kChannels == 1) {
    hn::Store(hn::LoadU(d, pixels), d, of[0]);
  } else {
    hn::Vec<Bytes> a, b, c;
    hn::LoadInterleaved3(d, pixels, a, b, c);
    hn::Store(a, d, of[0]);
    hn::Store(b, d, of[1]);
    hn::Store(c, d, of[2]);
  }
}

HWY_ALIGN constexpr std::uint8_t kBackwards[16] = {15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0};

template <int kChannels>
HWY_INLINE void mirror_block(const std::uint8_t* from, std::uint8_t* to) {
  const Bytes d;
  const auto backwards = hn::Load(d, kBackwards);
  if constexpr (kChannels == 1) {
    hn::StoreU(hn::TableLookupBytes(hn::LoadU(d, from), backwards), d, to);
  } else {
    hn::Vec<Bytes> a, b, c;
    hn::LoadInterleaved3(d, from, a, b, c);
    hn::StoreInterleaved3(hn::TableLookupBytes(a, backwards), hn::TableLookupBytes(b, backwards),
                          hn::TableLookupBytes(c, backwards), d, to);
  }
}

/// Undoes Paeth for all channels of a pixel at once. The next pixel is read before this one is written, because the
/// fourth byte of this pixel may be the first byte of the next.
template <int kChannels>
void paeth(std::uint8_t* row, const std::uint8_t* above, std::size_t bytes) {
  const hn::Full64<std::int16_t> d;
  const hn::Rebind<std::uint8_t, decltype(d)> four;
  const auto low = hn::Set(d, 255);
  auto left = hn::Zero(d);
  auto corner = hn::Zero(d);
  auto value = hn::PromoteTo(d, hn::LoadU(four, row));
  for (std::size_t i = 0; i < bytes; i += kChannels) {
    const auto up = hn::PromoteTo(d, hn::LoadU(four, above + i));
    const auto next = hn::PromoteTo(d, hn::LoadU(four, row + i + kChannels));
    const auto across = hn::Sub(up, corner);
    const auto down = hn::Sub(left, corner);
    const auto to_left = hn::Abs(across);
    const auto to_up = hn::Abs(down);
    const auto to_corner = hn::Abs(hn::Add(across, down));
    const auto least = hn::Min(hn::Min(to_left, to_corner), to_up);
    const auto nearer = hn::IfThenElse(hn::Eq(least, to_up), up, corner);
    left = hn::And(hn::Add(value, hn::IfThenElse(hn::Eq(least, to_left), left, nearer)), low);
    if (i + kChannels < bytes || kChannels == 4) {
      hn::StoreU(hn::DemoteTo(four, left), four, row + i);
    } else {
      std::uint8_t last[4];
      hn::StoreU(hn::DemoteTo(four, left), four, last);
      std::memcpy(row + i, last, kChannels);
    }
    corner = up;
    value = next;
  }
}

/// Transposes 16 x 16 bytes: reads row r at from(r), and writes column i to to(i). Each of four rounds interleaves the
/// first 8 vectors with the last 8, which rotates the bits of the row and column indices by one.
template <class From, class To>
HWY_INLINE void transpose(const From& from, const To& to) {
  const Bytes d;
  hn::Vec<Bytes> rows[16];
  hn::Vec<Bytes> dealt[16];
  for (int r = 0; r < 16; ++r) rows[r] = hn::LoadU(d, from(r));
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 8; ++i) {
      dealt[2 * i] = hn::InterleaveLower(d, rows[i], rows[i + 8]);
      dealt[2 * i + 1] = hn::InterleaveUpper(d, rows[i], rows[i + 8]);
    }
    for (int i = 0; i < 8; ++i) {
      rows[2 * i] = hn::InterleaveLower(d, dealt[i], dealt[i + 8]);
      rows[2 * i + 1] = hn::InterleaveUpper(d, dealt[i], dealt[i + 8]);
    }
  }
  for (int i = 0; i < 16; ++i) hn::StoreU(rows[i], d, to(i));
}

#endif

/// Calls `round` with 16 pixels at a time; the last round is padded with zeros, whose results are discarded.
template <int kChannels, class Round>
HWY_INLINE void for_blocks(const std::uint8_t* pixels, std::int64_t count, const Round& round) {
  Planes<kChannels> planes;
  std::int64_t at = 0;
  for (; at + kBlock <= count; at += kBlock) {
    planes.load(pixels + at * kChannels);
    round(planes, at, kBlock);
  }
  if (at == count) return;
  std::uint8_t last[kBlock * kChannels] = {};
  std::memcpy(last, pixels + at * kChannels, static_cast<std::size_t>((count - at) * kChannels));
  planes.load(last);
  round(planes, at, count - at);
}

void gray_of(const std::uint8_t* rgb, std::size_t pixels, std::uint8_t* gray) {
  const Ints d;
  const IntBytes bytes;
  for_blocks<3>(
      rgb, static_cast<std::int64_t>(pixels), [&](const Planes<3>& from, std::int64_t at, std::int64_t count) HWY_ATTR {
        alignas(64) std::uint8_t luma[kBlock];
        for (std::size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
          const auto part = [&](int channel, std::int32_t weight) HWY_ATTR {
            return hn::Mul(hn::PromoteTo(d, hn::LoadU(bytes, from.of[channel] + i)), hn::Set(d, weight));
          };
          const auto sum = hn::Add(hn::Add(part(0, 19595), part(1, 38470)), part(2, 7471));
          hn::StoreU(hn::DemoteTo(bytes, hn::ShiftRight<16>(hn::Add(sum, hn::Set(d, 0x8000)))), bytes, luma + i);
        }
        std::memcpy(gray + at, luma, static_cast<std::size_t>(count));
      });
}

/// Converts pixels to floats. If kNormalise is false, the mean is 0 and the standard deviation 1, which need no
/// arithmetic.
template <int kChannels, bool kNormalise>
void floats_of(const PixelView& view, const FloatRule& rule, float* out) {
  const Floats d;
  const Ints ints;
  const IntBytes bytes;
  const std::int64_t plane = view.size.width * view.size.height;
  for (std::int64_t y = 0; y < view.size.height; ++y) {
    float* const row = out + y * view.size.width;
    for_blocks<kChannels>(
        view.row(y), view.size.width, [&](const Planes<kChannels>& from, std::int64_t at, std::int64_t count) HWY_ATTR {
          for (int channel = 0; channel < kChannels; ++channel) {
            alignas(64) float values[kBlock];
            float* const to = row + channel * plane + at;
            float* const whole = count == kBlock ? to : values;
            for (std::size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
              const auto value = hn::ConvertTo(d, hn::PromoteTo(ints, hn::LoadU(bytes, from.of[channel] + i)));
              auto result = hn::Div(value, hn::Set(d, 255.0F));
              if constexpr (kNormalise) {
                result = hn::Div(hn::Sub(result, hn::Set(d, rule.mean[channel])), hn::Set(d, rule.deviation[channel]));
              }
              hn::StoreU(result, d, whole + i);
            }
            if (count != kBlock) std::memcpy(to, values, static_cast<std::size_t>(count) * sizeof(float));
          }
        });
  }
}

void planes_of(const PixelView& view, const FloatRule& rule, float* out) {
  const bool plain = rule.mean == FloatRule{}.mean && rule.deviation == FloatRule{}.deviation;
  if (view.channels == 1) return plain ? floats_of<1, false>(view, rule, out) : floats_of<1, true>(view, rule, out);
  plain ? floats_of<3, false>(view, rule, out) : floats_of<3, true>(view, rule, out);
}

template <int kChannels>
void mirror(std::uint8_t* row, std::int64_t pixels) {
  static thread_local std::vector<std::uint8_t> copy;
  copy.assign(row, row + pixels * kChannels);
  std::int64_t at = 0;
  for (; at + kBlock <= pixels; at += kBlock) {
    mirror_block<kChannels>(copy.data() + at * kChannels, row + (pixels - at - kBlock) * kChannels);
  }
  for (; at < pixels; ++at) std::memcpy(row + (pixels - at - 1) * kChannels, copy.data() + at * kChannels, kChannels);
}

void mirror_of(std::uint8_t* row, std::int64_t pixels, std::int64_t channels) {
  channels == 1 ? mirror<1>(row, pixels) : mirror<3>(row, pixels);
}

void undo_paeth_of(std::uint8_t* row, const std::uint8_t* above, std::size_t bytes, int channels) {
  channels == 3 ? paeth<3>(row, above, bytes) : paeth<4>(row, above, bytes);
}

/// Transposes bytes [begin, end) of 16 rows to `columns`: byte i of row r is at i * 16 + r.
void to_columns(const std::uint8_t* const (&rows)[16], std::int64_t begin, std::int64_t end, std::uint8_t* columns) {
  for (std::int64_t at = begin; at < end; at += 16) {
    const bool whole = at + 16 <= end;
    std::uint8_t last[16][16] = {};
    const std::uint8_t* from[16];
    for (int r = 0; r < 16; ++r) {
      if (!whole) std::memcpy(last[r], rows[r] + at, static_cast<std::size_t>(end - at));
      from[r] = whole ? rows[r] + at : last[r];
    }
    transpose([&](int r) { return from[r]; }, [&](int i) { return columns + (at + i) * 16; });
  }
}

void to_rows(const std::uint8_t* columns, std::int64_t bytes, ByteRows out) {
  for (std::int64_t at = 0; at < bytes; at += 16) {
    transpose([&](int i) { return columns + (at + i) * 16; }, [&](int r) { return out.data + r * out.stride + at; });
  }
}

constexpr int kFractionBits = 22;

/// Computes output x of 16 rows at once.
template <int kChannels>
HWY_INLINE void resample_column(const std::uint8_t* from, const ResampleAxis& axis, std::int64_t x, std::uint8_t* to) {
  const Ints d;
  const IntBytes bytes;
  const std::int32_t* weights = axis.weights.data() + x * axis.taps;
  const std::uint8_t* first = from + axis.first[x] * kChannels * 16;
  for (std::size_t part = 0; part < 16; part += hn::Lanes(d)) {
    hn::Vec<Ints> sums[kChannels];
    for (int c = 0; c < kChannels; ++c) sums[c] = hn::Set(d, 1 << (kFractionBits - 1));
    for (std::int32_t tap = 0; tap < axis.count[x]; ++tap) {
      const auto weight = hn::Set(d, weights[tap]);
      for (int c = 0; c < kChannels; ++c) {
        const auto value = hn::LoadU(bytes, first + (tap * kChannels + c) * 16 + part);
        sums[c] = hn::Add(sums[c], hn::Mul(hn::PromoteTo(d, value), weight));
      }
    }
    for (int c = 0; c < kChannels; ++c) {
      hn::StoreU(hn::DemoteTo(bytes, hn::ShiftRight<kFractionBits>(sums[c])), bytes, to + c * 16 + part);
    }
  }
}

template <int kChannels>
void rows_of(const PixelView& view, std::int64_t first, std::int64_t count, const ResampleAxis& x, ByteRows out) {
  static thread_local std::vector<std::uint8_t> columns;
  static thread_local std::vector<std::uint8_t> results;
  columns.resize(std::max(columns.size(), static_cast<std::size_t>((view.row_bytes() + 16) * 16)));
  results.resize(std::max(results.size(), static_cast<std::size_t>((x.size() * kChannels + 16) * 16)));
  const std::int64_t begin = std::int64_t{x.first.front()} * kChannels;
  const std::int64_t end = (std::int64_t{x.first.back()} + x.count.back()) * kChannels;
  for (std::int64_t y = 0; y < count; y += 16) {
    const std::uint8_t* rows[16];
    for (std::int64_t r = 0; r < 16; ++r) rows[r] = view.row(first + std::min(y + r, count - 1));
    to_columns(rows, begin, end, columns.data());
    for (std::int64_t i = 0; i < x.size(); ++i) {
      resample_column<kChannels>(columns.data(), x, i, results.data() + i * kChannels * 16);
    }
    to_rows(results.data(), x.size() * kChannels, {out.data + y * out.stride, out.stride});
  }
}

void resample_rows_of(const PixelView& view, std::int64_t first, std::int64_t count, const ResampleAxis& x,
                      ByteRows out) {
  view.channels == 1 ? rows_of<1>(view, first, count, x, out) : rows_of<3>(view, first, count, x, out);
}

void resample_columns_of(const ColumnPass& pass, const ResampleAxis& axis) {
  const Ints d;
  const IntBytes bytes;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t y = 0; y < axis.size(); ++y) {
    const std::uint8_t* from = pass.in + (axis.first[y] - pass.skipped) * pass.stride;
    const std::int32_t* weights = axis.weights.data() + y * axis.taps;
    std::uint8_t* to = pass.out + y * pass.row_bytes;
    for (std::int64_t at = 0; at < pass.row_bytes; at += lanes) {
      auto sum = hn::Set(d, 1 << (kFractionBits - 1));
      for (std::int32_t tap = 0; tap < axis.count[y]; ++tap) {
        const auto value = hn::LoadU(bytes, from + tap * pass.stride + at);
        sum = hn::Add(sum, hn::Mul(hn::PromoteTo(d, value), hn::Set(d, weights[tap])));
      }
      const auto result = hn::DemoteTo(bytes, hn::ShiftRight<kFractionBits>(sum));
      if (at + lanes <= pass.row_bytes) {
        hn::StoreU(result, bytes, to + at);
      } else {
        std::uint8_t last[16];
        hn::StoreU(result, bytes, last);
        std::memcpy(to + at, last, static_cast<std::size_t>(pass.row_bytes - at));
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::data
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::data {

HWY_EXPORT(gray_of);
HWY_EXPORT(mirror_of);
HWY_EXPORT(planes_of);
HWY_EXPORT(undo_paeth_of);
HWY_EXPORT(resample_rows_of);
HWY_EXPORT(resample_columns_of);

void rgb_to_gray(const std::uint8_t* rgb, std::size_t pixels, std::uint8_t* gray) noexcept {
  HWY_DYNAMIC_DISPATCH(gray_of)(rgb, pixels, gray);
}

void mirror_row(std::uint8_t* row, std::int64_t pixels, std::int64_t channels) {
  HWY_DYNAMIC_DISPATCH(mirror_of)(row, pixels, channels);
}

void to_float_planes(const PixelView& view, const FloatRule& rule, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(planes_of)(view, rule, out);
}

void undo_paeth(std::uint8_t* row, const std::uint8_t* above, std::size_t bytes, int channels) {
  HWY_DYNAMIC_DISPATCH(undo_paeth_of)(row, above, bytes, channels);
}

void resample_rows(const PixelView& view, std::int64_t first, std::int64_t count, const ResampleAxis& x, ByteRows out) {
  HWY_DYNAMIC_DISPATCH(resample_rows_of)(view, first, count, x, out);
}

void resample_columns(const ColumnPass& pass, const ResampleAxis& axis) {
  HWY_DYNAMIC_DISPATCH(resample_columns_of)(pass, axis);
}

}  // namespace lockstep::data
#endif
