// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <torch/nn/functional/loss.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/loss.h"
#include "nn/loss/loss_function.h"
#include "nn/loss/loss_kernel.h"
#include "nn/vector/kernel_table.h"
#include "nn/vector/kernel_tensors.h"

namespace lockstep::nn {
namespace {

constexpr std::int64_t kCrossEntropyBlock = 1 << 13;  // elements of the logits

/// The parameters that all elements share.
struct Shared {
  at::Tensor weight;  ///< [C]
  std::int64_t ignored;
  double smoothing;
  detail::Reduction reduction;
};

/// Returns the sum of the weights of the targets' classes, the divisor of a mean.
double weight_of(const at::Tensor& target, const Shared& shared) {
  const auto* classes_of = target.data_ptr<std::int64_t>();
  const auto* weight = shared.weight.data_ptr<float>();
  const std::int64_t classes = shared.weight.numel();
  double sum = 0;
  for (std::int64_t i = 0; i < target.numel(); ++i) {
    if (classes_of[i] == shared.ignored) continue;
    if (classes_of[i] < 0 || classes_of[i] >= classes) {
      throw DataError(fmt::format("element {} of the cross entropy targets has class {}, but there are {} classes", i,
                                  classes_of[i], classes),
                      "number the classes from 0, or set ignore_index to the class to ignore");
    }
    sum += static_cast<double>(weight[classes_of[i]]);
  }
  return sum;
}

class CrossEntropyOf final : public detail::LossKernel {
 public:
  CrossEntropyOf(const at::Tensor& target, Shared shared) : target_(target), shared_(std::move(shared)) {}

  [[nodiscard]] detail::ComputedLoss compute(const at::Tensor& logits, bool wants_grad) const override {
    const double mean_over = weight_of(target_, shared_);
    const double scale = shared_.reduction == detail::Reduction::kMean ? 1 / mean_over : 1;
    detail::ComputedLoss found{.loss = at::empty_like(target_, at::kFloat),
                               .grad = wants_grad ? at::empty_like(logits) : at::Tensor(),
                               .class_dimension = 1};
    CrossEntropy kernel{.type = detail::element_type(logits),
                        .classes = logits.size(1),
                        .logits = logits.data_ptr(),
                        .target = target_.data_ptr<std::int64_t>(),
                        .ignored = shared_.ignored,
                        .weight = shared_.weight.data_ptr<float>(),
                        .weight_sum = static_cast<float>(shared_.weight.sum().item<double>()),
                        .smoothing = static_cast<float>(shared_.smoothing),
                        .scale = static_cast<float>(scale),
                        .grad = wants_grad ? found.grad.data_ptr() : nullptr};
    if (logits.dim() > 2 && logits.is_contiguous()) {
      images(kernel, logits, found.loss.data_ptr<float>());
    } else {
      elements(kernel, found.loss.data_ptr<float>());
    }
    if (shared_.reduction != detail::Reduction::kNone) found.loss = detail::sum_losses(found.loss, scale);
    return found;
  }

  [[nodiscard]] const char* name() const override { return "lockstep::nn::CrossEntropyLoss"; }

 private:
  void elements(const CrossEntropy& kernel, float* losses) const {
    const std::int64_t block = std::max<std::int64_t>(1, kCrossEntropyBlock / kernel.classes);
    detail::for_blocks(target_.numel(), block, [&](std::int64_t begin, std::int64_t end, std::int64_t /*block*/) {
      cross_entropy_rows(kernel, {begin, end}, losses);
    });
  }

  /// Computes the losses if the classes are not adjacent in memory: image by image, each in blocks.
  void images(const CrossEntropy& all, const at::Tensor& logits, float* losses) const {
    const std::int64_t pixels = target_.numel() / logits.size(0);
    const std::int64_t bytes = all.classes * pixels * static_cast<std::int64_t>(logits.element_size());
    const std::int64_t blocks = (pixels + kCrossEntropyBlock - 1) / kCrossEntropyBlock;
    detail::for_blocks(logits.size(0) * blocks, 1, [&](std::int64_t index, std::int64_t, std::int64_t) {
      const std::int64_t image = index / blocks;
      const std::int64_t begin = index % blocks * kCrossEntropyBlock;
      CrossEntropy one = all;
      one.logits = static_cast<const char*>(all.logits) + image * bytes;
      one.target = all.target + image * pixels;
      if (all.grad != nullptr) one.grad = static_cast<char*>(all.grad) + image * bytes;
      cross_entropy_image(one, pixels, {begin, std::min(begin + kCrossEntropyBlock, pixels)}, losses + image * pixels);
    });
  }

  at::Tensor target_;
  Shared shared_;
};

bool can_run(const at::Tensor& logits, const at::Tensor& target, const CrossEntropyLossImpl& layer) {
  if (!detail::has_kernel_type(logits) || logits.dim() < 2 || !detail::is_dense(logits)) return false;
  if (!target.device().is_cpu() || target.scalar_type() != at::kLong || target.dim() != logits.dim() - 1) return false;
  if (target.size(0) != logits.size(0) || target.sizes().slice(1) != logits.sizes().slice(2)) return false;
  const at::Tensor& weight = layer.weight;
  if (weight.defined() && !(detail::is_float_vector(weight) && weight.numel() == logits.size(1))) return false;
  const double smoothing = layer.options.label_smoothing();
  if (smoothing < 0 || smoothing > 1) return false;
  // bfloat16 has no entry in the table, since libtorch 1.13 has no bfloat16 cross entropy that computes in float32.
  return logits.scalar_type() == at::kBFloat16 || cross_entropy_is_faster(target.numel(), logits.size(1));
}

}  // namespace

CrossEntropyLossImpl::CrossEntropyLossImpl(torch::nn::CrossEntropyLossOptions chosen) : options(std::move(chosen)) {
  reset();
}

void CrossEntropyLossImpl::reset() { weight = register_buffer("weight", options.weight()); }

at::Tensor CrossEntropyLossImpl::forward(const at::Tensor& logits, const at::Tensor& target) {
  if (can_run(logits, target, *this)) {
    Shared shared{.weight = weight.defined() ? weight : at::ones({logits.size(1)}),
                  .ignored = options.ignore_index(),
                  .smoothing = options.label_smoothing(),
                  .reduction = detail::reduction_of(options.reduction())};
    return detail::run_loss(logits, CrossEntropyOf(target.contiguous(), std::move(shared)));
  }
  return torch::nn::functional::detail::cross_entropy(detail::wide_logits(logits), target,
                                                      detail::wide_weight(logits, weight), options.ignore_index(),
                                                      options.reduction(), options.label_smoothing());
}

void CrossEntropyLossImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("lockstep::nn::CrossEntropyLoss(ignore_index={}, label_smoothing={})", options.ignore_index(),
                        options.label_smoothing());
}

}  // namespace lockstep::nn
