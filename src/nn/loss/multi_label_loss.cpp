// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/nn/functional/loss.h>

#include "lockstep/nn/loss.h"
#include "nn/loss/loss_function.h"
#include "nn/loss/loss_kernel.h"
#include "nn/vector/kernel_tensors.h"

namespace lockstep::nn {
namespace {

constexpr std::int64_t kMultiLabelBlock = 1 << 13;  // elements, each of which takes an exponential and a logarithm

class MultiLabel final : public detail::LossKernel {
 public:
  MultiLabel(const at::Tensor& target, const at::Tensor& weight, detail::Reduction reduction)
      : target_(target.to(at::kFloat).contiguous()), weight_(weight), reduction_(reduction) {}

  [[nodiscard]] detail::ComputedLoss compute(const at::Tensor& logits, bool wants_grad) const override {
    const std::int64_t classes = logits.size(-1);
    const std::int64_t rows = logits.numel() / classes;
    const double share = 1.0 / static_cast<double>(classes);
    const double scale = reduction_ == detail::Reduction::kMean ? share / static_cast<double>(rows) : share;
    detail::ComputedLoss found{
        .loss = at::empty(logits.sizes().slice(0, static_cast<std::size_t>(logits.dim() - 1)), at::kFloat),
        .grad = wants_grad ? at::empty_like(logits) : at::Tensor(),
        .class_dimension = logits.dim() - 1};
    const MultiLabelLoss kernel{.type = detail::element_type(logits),
                                .classes = classes,
                                .logits = logits.data_ptr(),
                                .target = target_.data_ptr<float>(),
                                .weight = weight_.defined() ? weight_.data_ptr<float>() : nullptr,
                                .scale = static_cast<float>(scale),
                                .grad = wants_grad ? found.grad.data_ptr() : nullptr};
    detail::for_blocks(rows, std::max<std::int64_t>(1, kMultiLabelBlock / classes),
                       [&](std::int64_t begin, std::int64_t end, std::int64_t /*block*/) {
                         multi_label_loss(kernel, {begin, end}, found.loss.data_ptr<float>());
                       });
    if (reduction_ == detail::Reduction::kNone) {
      found.loss.mul_(share);
    } else {
      found.loss = detail::sum_losses(found.loss, scale);
    }
    return found;
  }

  [[nodiscard]] const char* name() const override { return "lockstep::nn::MultiLabelSoftMarginLoss"; }

 private:
  at::Tensor target_;
  at::Tensor weight_;
  detail::Reduction reduction_;
};

bool can_run(const at::Tensor& logits, const at::Tensor& target, const at::Tensor& weight) {
  if (!detail::has_kernel_type(logits) || !logits.is_contiguous() || logits.dim() == 0) return false;
  if (!target.device().is_cpu() || target.sizes() != logits.sizes() || target.requires_grad()) return false;
  if (weight.defined() && !(detail::is_float_vector(weight) && weight.numel() == logits.size(-1))) return false;
  return target.scalar_type() != at::kDouble;  // float32 may not represent such targets
}

}  // namespace

MultiLabelSoftMarginLossImpl::MultiLabelSoftMarginLossImpl(torch::nn::MultiLabelSoftMarginLossOptions chosen)
    : options(std::move(chosen)) {
  reset();
}

void MultiLabelSoftMarginLossImpl::reset() { weight = register_buffer("weight", options.weight()); }

at::Tensor MultiLabelSoftMarginLossImpl::forward(const at::Tensor& logits, const at::Tensor& target) {
  if (can_run(logits, target, weight)) {
    return detail::run_loss(logits, MultiLabel(target, weight, detail::reduction_of(options.reduction())));
  }
  return torch::nn::functional::detail::multilabel_soft_margin_loss(
      detail::wide_logits(logits), target, detail::wide_weight(logits, weight), options.reduction());
}

void MultiLabelSoftMarginLossImpl::pretty_print(std::ostream& stream) const {
  stream << "lockstep::nn::MultiLabelSoftMarginLoss()";
}

}  // namespace lockstep::nn
