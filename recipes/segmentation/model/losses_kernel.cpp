// SPDX-License-Identifier: Apache-2.0
// Highway compiles this file once for each instruction set (foreach_target.h), and one of them is chosen at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "segmentation/model/losses_kernel.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes before highway.h, as Highway requires.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "segmentation/model/losses_kernel.h"
#include "segmentation/synthetic/planes.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::segmentation {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Pixels processed together.
using Floats = hn::CappedTag<float, 16>;
constexpr std::int64_t kPixels = 16;

/// Rounds up to a multiple of kPixels.
HWY_INLINE std::int64_t padded(std::int64_t width) { return (width + kPixels - 1) / kPixels * kPixels; }

/// The working memory for a band: rows of [classes][padded width], and [classes][kPixels] for the current pixels.
struct Workspace {
  explicit Workspace(const LossShape& shape)
      : stride(padded(static_cast<std::int64_t>(shape.columns->share.size()))),
        row(static_cast<std::size_t>(shape.classes * stride)),
        upper(row),
        lower(row),
        upper_grad(row),
        lower_grad(row),
        logits(static_cast<std::size_t>(shape.classes * kPixels)),
        exponentials(logits.size()) {}

  std::int64_t stride;
  std::size_t row;
  std::vector<float> upper;  ///< the rows of the logits around the pixels, upsampled in width
  std::vector<float> lower;
  std::vector<float> upper_grad;
  std::vector<float> lower_grad;
  std::vector<float> logits;  ///< logits minus the largest logit
  std::vector<float> exponentials;
};

/// Values for the current pixels that do not depend on the class.
struct Pixels {
  alignas(64) float log_sum[kPixels];
  alignas(64) float entropy[kPixels];
  alignas(64) float one_over_sum[kPixels];
};

/// Factors of the gradients, by pixel.
struct Factors {
  alignas(64) float probability[kPixels];
  alignas(64) float entropy[kPixels];
  alignas(64) float all[kPixels];
};

/// The exponential. For NaN it returns NaN, whereas Highway's returns 0.
HWY_INLINE hn::Vec<Floats> exponential(Floats d, hn::Vec<Floats> x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
}

void widen(const LossShape& shape, const LossPicture& picture, std::int64_t row, std::int64_t stride, float* to) {
  const Enlarged& columns = *shape.columns;
  for (std::int64_t c = 0; c < shape.classes; ++c) {
    const float* from = picture.logits + (c * shape.height + row) * shape.width;
    for (std::size_t x = 0; x < columns.share.size(); ++x) {
      const float before = from[columns.before[x]];
      to[c * stride + static_cast<std::int64_t>(x)] = before + columns.share[x] * (from[columns.after[x]] - before);
    }
  }
}

/// The transpose of widen(), for gradients. `to`: one row for each class, `step` apart.
void narrow(const LossShape& shape, const float* from, std::int64_t stride, std::int64_t step, float* to) {
  const Enlarged& columns = *shape.columns;
  for (std::int64_t c = 0; c < shape.classes; ++c) {
    for (std::size_t x = 0; x < columns.share.size(); ++x) {
      const float value = from[c * stride + static_cast<std::int64_t>(x)];
      to[c * step + columns.before[x]] += (1 - columns.share[x]) * value;
      to[c * step + columns.after[x]] += columns.share[x] * value;
    }
  }
}

/// Fills the workspace and `pixels`, for the pixels starting at column `x`.
HWY_INLINE void soften(const LossShape& shape, Workspace& work, std::int64_t x, float share, Pixels& pixels) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < kPixels; i += lanes) {
    auto largest = hn::Set(d, -std::numeric_limits<float>::infinity());
    for (std::int64_t c = 0; c < shape.classes; ++c) {
      const auto upper = hn::LoadU(d, work.upper.data() + c * work.stride + x + i);
      const auto lower = hn::LoadU(d, work.lower.data() + c * work.stride + x + i);
      const auto z = hn::MulAdd(hn::Set(d, share), hn::Sub(lower, upper), upper);
      hn::StoreU(z, d, work.logits.data() + c * kPixels + i);
      largest = hn::Max(largest, z);
    }
    auto sum = hn::Zero(d);
    auto weighted = hn::Zero(d);
    for (std::int64_t c = 0; c < shape.classes; ++c) {
      const auto z = hn::Sub(hn::LoadU(d, work.logits.data() + c * kPixels + i), largest);
      const auto e = exponential(d, z);
      hn::StoreU(z, d, work.logits.data() + c * kPixels + i);
      hn::StoreU(e, d, work.exponentials.data() + c * kPixels + i);
      sum = hn::Add(sum, e);
      weighted = hn::MulAdd(e, z, weighted);
    }
    const auto one_over = hn::Div(hn::Set(d, 1.0F), sum);
    const auto log_sum = hn::IfThenElse(hn::IsNaN(sum), sum, hn::Log(d, sum));
    hn::Store(log_sum, d, pixels.log_sum + i);
    hn::Store(one_over, d, pixels.one_over_sum + i);
    hn::Store(hn::NegMulAdd(weighted, one_over, log_sum), d, pixels.entropy + i);  // both parts are positive
  }
}

/// The values of the maps in a row, starting at column `x`.
struct MapRow {
  MapRow(const LossPicture& picture, std::int64_t offset) {
    for (std::size_t t = 0; t < kLossMaps; ++t) {
      at[t] = picture.maps[t] == nullptr ? nullptr : picture.maps[t] + offset;
    }
  }
  std::array<const std::uint8_t*, kLossMaps> at;
};

HWY_INLINE float mean_log(const LossShape& shape, const Workspace& work, std::int64_t pixel, float log_sum) {
  float sum = 0;
  for (std::int64_t c = 0; c < shape.classes; ++c) sum += work.logits[static_cast<std::size_t>(c * kPixels + pixel)];
  return sum / static_cast<float>(shape.classes) - log_sum;
}

void add_summands(const LossShape& shape, const Workspace& work, const Pixels& pixels, const MapRow& maps,
                  std::pair<std::int64_t, LossSums*> to) {
  const auto [count, sums] = to;
  for (std::size_t t : {kLabelMap, kPseudoMap}) {
    if (maps.at[t] == nullptr) continue;
    const float smoothing = t == kPseudoMap ? shape.smoothing : 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t label = maps.at[t][i];
      if (label == kUnlabelled) continue;
      float loss = pixels.log_sum[i] - work.logits[static_cast<std::size_t>(label * kPixels + i)];
      if (smoothing > 0) loss = (1 - smoothing) * loss - smoothing * mean_log(shape, work, i, pixels.log_sum[i]);
      sums->sum[t] += static_cast<double>(loss);
      ++sums->count[t];
    }
  }
  for (std::size_t t : {kScribbleMap, kClassMap}) {
    if (maps.at[t] == nullptr) continue;
    for (std::int64_t i = 0; i < count; ++i) {
      const float each = static_cast<float>(maps.at[t][i]) / 255 * pixels.entropy[i];
      sums->sum[t] += static_cast<double>(each);
      sums->count[t] += each != 0 ? 1 : 0;
    }
  }
}

/// Turns the exponentials into the gradient of the logits.
HWY_INLINE void differentiate(const LossShape& shape, Workspace& work, const Pixels& pixels, const Factors& factors) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < kPixels; i += lanes) {
    const auto one_over = hn::Load(d, pixels.one_over_sum + i);
    const auto entropy = hn::Load(d, factors.entropy + i);
    // p (a - k (log p + H)) - s, with log p = z - log_sum.
    const auto constant =
        hn::NegMulAdd(entropy, hn::Sub(hn::Load(d, pixels.entropy + i), hn::Load(d, pixels.log_sum + i)),
                      hn::Load(d, factors.probability + i));
    const auto all = hn::Load(d, factors.all + i);
    for (std::int64_t c = 0; c < shape.classes; ++c) {
      float* at = work.exponentials.data() + c * kPixels + i;
      const auto z = hn::LoadU(d, work.logits.data() + c * kPixels + i);
      const auto p = hn::Mul(hn::LoadU(d, at), one_over);
      hn::StoreU(hn::MulSub(p, hn::NegMulAdd(entropy, z, constant), all), d, at);
    }
  }
}

/// Writes the gradient of `count` pixels into the workspace's exponentials.
void add_slopes(const LossShape& shape, Workspace& work, const Pixels& pixels, const MapRow& maps,
                std::pair<std::int64_t, const std::array<float, kLossMaps>*> count_and_weights) {
  const auto& [count, weights] = count_and_weights;
  Factors factors = {};
  for (std::size_t t : {kLabelMap, kPseudoMap}) {
    if (maps.at[t] == nullptr) continue;
    const float spread = (*weights)[t] * (t == kPseudoMap ? shape.smoothing : 0) / static_cast<float>(shape.classes);
    for (std::int64_t i = 0; i < count; ++i) {
      const bool known = maps.at[t][i] != kUnlabelled;
      factors.probability[i] += known ? (*weights)[t] : 0;
      factors.all[i] += known ? spread : 0;
    }
  }
  for (std::size_t t : {kScribbleMap, kClassMap}) {
    if (maps.at[t] == nullptr) continue;
    for (std::int64_t i = 0; i < count; ++i) {
      factors.entropy[i] += (*weights)[t] * (static_cast<float>(maps.at[t][i]) / 255);
    }
  }
  differentiate(shape, work, pixels, factors);
  for (std::size_t t : {kLabelMap, kPseudoMap}) {
    if (maps.at[t] == nullptr) continue;
    const float hard = (*weights)[t] * (1 - (t == kPseudoMap ? shape.smoothing : 0));
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t label = maps.at[t][i];
      if (label != kUnlabelled) work.exponentials[static_cast<std::size_t>(label * kPixels + i)] -= hard;
    }
  }
}

/// Adds the pixels' gradients to the gradients of the two upsampled rows.
HWY_INLINE void share_out(const LossShape& shape, Workspace& work, std::int64_t x, float share) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t c = 0; c < shape.classes; ++c) {
    for (std::int64_t i = 0; i < kPixels; i += lanes) {
      const auto grad = hn::LoadU(d, work.exponentials.data() + c * kPixels + i);
      float* upper = work.upper_grad.data() + c * work.stride + x + i;
      float* lower = work.lower_grad.data() + c * work.stride + x + i;
      hn::StoreU(hn::MulAdd(grad, hn::Set(d, 1 - share), hn::LoadU(d, upper)), d, upper);
      hn::StoreU(hn::MulAdd(grad, hn::Set(d, share), hn::LoadU(d, lower)), d, lower);
    }
  }
}

/// The two rows of the logits around the current row of pixels, which moves down the image.
class Rows {
 public:
  /// `grad`: as in add_loss_band_gradient(), or null.
  Rows(const LossShape& shape, const LossPicture& picture, std::int64_t first, float* grad)
      : shape_(shape), picture_(picture), first_(first), grad_(grad), work_(shape) {}

  Workspace& at(std::int64_t upper, std::int64_t lower) {
    if (upper == upper_) return work_;
    const bool next = upper == lower_ && upper_ >= 0;
    give_upper();
    if (next) {
      work_.upper.swap(work_.lower);
      work_.upper_grad.swap(work_.lower_grad);
    } else {
      give_lower();
      widen(shape_, picture_, upper, work_.stride, work_.upper.data());
    }
    widen(shape_, picture_, lower, work_.stride, work_.lower.data());
    upper_ = upper;
    lower_ = lower;
    return work_;
  }

  void finish() {
    give_upper();
    give_lower();
  }

 private:
  void give_upper() { give(upper_, work_.upper_grad); }
  void give_lower() { give(lower_, work_.lower_grad); }
  void give(std::int64_t row, std::vector<float>& grad) {
    if (grad_ == nullptr || row < 0) return;
    narrow(shape_, grad.data(), work_.stride, (LossShape::kBandRows + 1) * shape_.width,
           grad_ + (row - first_) * shape_.width);
    std::fill(grad.begin(), grad.end(), 0.0F);
  }

  const LossShape& shape_;
  const LossPicture& picture_;
  std::int64_t first_;
  float* grad_;
  std::int64_t upper_ = -1;
  std::int64_t lower_ = -1;
  Workspace work_;
};

/// Calls f(work, x, row's index) for every kPixels pixels of the band.
template <class F>
HWY_INLINE void for_pixels(const LossShape& shape, const LossPicture& picture, std::int64_t band, float* grad, F f) {
  const std::int64_t first = band * LossShape::kBandRows;
  const auto& before = shape.rows->before;
  const auto begin = std::lower_bound(before.begin(), before.end(), first) - before.begin();
  const auto end = std::lower_bound(before.begin(), before.end(), first + LossShape::kBandRows) - before.begin();
  const auto width = static_cast<std::int64_t>(shape.columns->share.size());
  Rows rows(shape, picture, first, grad);
  for (std::int64_t y = begin; y < end; ++y) {
    const auto at = static_cast<std::size_t>(y);
    Workspace& work = rows.at(before[at], shape.rows->after[at]);
    for (std::int64_t x = 0; x < width; x += kPixels) {
      Pixels pixels;
      soften(shape, work, x, shape.rows->share[at], pixels);
      f(work, pixels, x, at);
    }
  }
  rows.finish();
}

LossSums sum_band(const LossShape& shape, const LossPicture& picture, std::int64_t band) {
  LossSums sums;
  const auto width = static_cast<std::int64_t>(shape.columns->share.size());
  for_pixels(shape, picture, band, nullptr,
             [&](Workspace& work, const Pixels& pixels, std::int64_t x, std::size_t y) HWY_ATTR {
               const MapRow maps(picture, static_cast<std::int64_t>(y) * width + x);
               add_summands(shape, work, pixels, maps, {std::min(kPixels, width - x), &sums});
             });
  return sums;
}

void band_gradient(const LossShape& shape, const LossPicture& picture, std::int64_t band,
                   const std::array<float, kLossMaps>& factors, float* grad) {
  const auto width = static_cast<std::int64_t>(shape.columns->share.size());
  for_pixels(shape, picture, band, grad,
             [&](Workspace& work, const Pixels& pixels, std::int64_t x, std::size_t y) HWY_ATTR {
               const MapRow maps(picture, static_cast<std::int64_t>(y) * width + x);
               add_slopes(shape, work, pixels, maps, {std::min(kPixels, width - x), &factors});
               share_out(shape, work, x, shape.rows->share[y]);
             });
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::segmentation
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::segmentation {

HWY_EXPORT(sum_band);
HWY_EXPORT(band_gradient);

Enlarged::Enlarged(std::int64_t small, std::int64_t large) {
  const float scale = large > 1 ? static_cast<float>(small - 1) / static_cast<float>(large - 1) : 0;
  for (std::int64_t i = 0; i < large; ++i) {
    const float place = scale * static_cast<float>(i);
    const auto at = std::min(static_cast<std::int64_t>(place), small - 1);
    before.push_back(at);
    after.push_back(std::min(at + 1, small - 1));
    share.push_back(place - static_cast<float>(at));
  }
}

LossSums sum_loss_band(const LossShape& shape, const LossPicture& picture, std::int64_t band) {
  return HWY_DYNAMIC_DISPATCH(sum_band)(shape, picture, band);
}

void add_loss_band_gradient(const LossShape& shape, const LossPicture& picture, std::int64_t band,
                            const std::array<float, kLossMaps>& factors, float* grad) {
  HWY_DYNAMIC_DISPATCH(band_gradient)(shape, picture, band, factors, grad);
}

}  // namespace lockstep::segmentation
#endif
