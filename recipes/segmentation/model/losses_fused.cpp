// SPDX-License-Identifier: Apache-2.0
// Runs the kernel over a batch: bands run in parallel and their sums are combined in order, so no result depends on the
// number of threads. Forward only counts and sums; backward then knows each mean's divisor and each term's weight.
#include "segmentation/model/losses.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/tensor/threads.h"

namespace lockstep::segmentation {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A batch in the kernel's layout.
class Pictures {
 public:
  /// Shapes: logits float32, contiguous. `places`: as in FusedMaps.
  Pictures(at::Tensor logits, at::Tensor target, at::IntArrayRef places, double smoothing)
      : logits_(std::move(logits)),
        target_(std::move(target)),
        places_(places.vec()),
        rows_(logits_.size(2), target_.size(2)),
        columns_(logits_.size(3), target_.size(3)) {
    shape_ = {.classes = logits_.size(1),
              .height = logits_.size(2),
              .width = logits_.size(3),
              .rows = &rows_,
              .columns = &columns_,
              .smoothing = static_cast<float>(smoothing)};
  }
  Pictures(const Pictures&) = delete;
  Pictures& operator=(const Pictures&) = delete;

  [[nodiscard]] LossSums sums() const {
    std::vector<LossSums> parts(static_cast<std::size_t>(logits_.size(0) * shape_.bands()));
    for_bands([&](std::int64_t part, std::int64_t picture, std::int64_t band) {
      parts[static_cast<std::size_t>(part)] = sum_loss_band(shape_, picture_at(picture), band);
    });
    LossSums all;
    for (const LossSums& part : parts) {
      for (std::size_t t = 0; t < kLossMaps; ++t) {
        all.sum[t] += part.sum[t];
        all.count[t] += part.count[t];
      }
    }
    return all;
  }

  /// The gradient of the logits. Neighbouring bands share a row, so each has its own buffer, and these are added up in
  /// order.
  [[nodiscard]] at::Tensor gradient(const std::array<float, kLossMaps>& factors) const {
    constexpr std::int64_t kRows = LossShape::kBandRows;
    const std::int64_t bands = shape_.bands();
    const at::Tensor parts = at::zeros({logits_.size(0) * bands, shape_.classes, kRows + 1, shape_.width}, at::kFloat);
    const std::int64_t size = parts.numel() / std::max<std::int64_t>(1, parts.size(0));
    auto* memory = parts.data_ptr<float>();
    for_bands([&](std::int64_t part, std::int64_t picture, std::int64_t band) {
      add_loss_band_gradient(shape_, picture_at(picture), band, factors, memory + part * size);
    });
    at::Tensor grad = at::zeros({logits_.size(0), shape_.classes, bands * kRows + 1, shape_.width}, at::kFloat);
    for (std::int64_t part = 0; part < parts.size(0); ++part) {
      grad[part / bands].narrow(1, part % bands * kRows, kRows + 1).add_(parts[part]);
    }
    return grad.narrow(2, 0, shape_.height);
  }

 private:
  template <class F>
  void for_bands(F f) const {
    const std::int64_t bands = shape_.bands();
    tensor::parallel_for(0, logits_.size(0) * bands, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) f(part, part / bands, part % bands);
    });
  }

  [[nodiscard]] LossPicture picture_at(std::int64_t index) const {
    LossPicture picture{.logits = logits_.data_ptr<float>() + index * shape_.classes * shape_.height * shape_.width};
    const std::int64_t plane = target_.size(2) * target_.size(3);
    for (std::size_t t = 0; t < kLossMaps; ++t) {
      if (places_[t] < 0) continue;
      picture.maps[t] = target_.data_ptr<std::uint8_t>() + (index * target_.size(1) + places_[t]) * plane;
    }
    return picture;
  }

  at::Tensor logits_;
  at::Tensor target_;
  std::vector<std::int64_t> places_;
  Enlarged rows_;
  Enlarged columns_;
  LossShape shape_;
};

class FusedLosses : public torch::autograd::Function<FusedLosses> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const FusedMaps* maps) {
    const at::Tensor plain = logits.to(at::kFloat).contiguous();
    const at::Tensor target = maps->target.contiguous();
    const LossSums sums = Pictures(plain, target, maps->places, maps->smoothing).sums();
    at::Tensor means = at::zeros({kLossMaps}, at::kFloat);
    at::Tensor counts = at::empty({kLossMaps}, at::kLong);
    for (std::size_t t = 0; t < kLossMaps; ++t) {
      counts.data_ptr<std::int64_t>()[t] = std::max<std::int64_t>(1, sums.count[t]);
      means.data_ptr<float>()[t] =
          static_cast<float>(sums.sum[t] / static_cast<double>(std::max<std::int64_t>(1, sums.count[t])));
    }
    context->save_for_backward({plain, target, counts});
    context->saved_data["places"] = std::vector<std::int64_t>(maps->places.begin(), maps->places.end());
    context->saved_data["smoothing"] = maps->smoothing;
    context->saved_data["type"] = logits.scalar_type();
    return means;
  }

  static variable_list backward(AutogradContext* context, const variable_list& incoming) {
    if (at::GradMode::is_enabled()) {
      throw UsageError("second derivatives through the segmentation losses are not supported",
                       "call backward() without create_graph");
    }
    const variable_list kept = context->get_saved_variables();
    const at::Tensor slopes = incoming[0].to(at::kFloat).contiguous();
    std::array<float, kLossMaps> factors = {};
    for (std::size_t t = 0; t < kLossMaps; ++t) {
      factors[t] = slopes.data_ptr<float>()[t] / static_cast<float>(kept[2].data_ptr<std::int64_t>()[t]);
    }
    const std::vector<std::int64_t> places = context->saved_data["places"].toIntVector();
    const Pictures pictures(kept[0], kept[1], places, context->saved_data["smoothing"].toDouble());
    return {pictures.gradient(factors).to(context->saved_data["type"].toScalarType()), at::Tensor()};
  }
};

}  // namespace

at::Tensor fused_losses(const at::Tensor& logits, const FusedMaps& maps) { return FusedLosses::apply(logits, &maps); }

}  // namespace lockstep::segmentation
