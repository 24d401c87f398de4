// SPDX-License-Identifier: Apache-2.0
#include "optim/unscale.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/isfinite.h>

#include <atomic>
#include <cmath>
#include <map>

#include "lockstep/tensor/threads.h"
#include "optim/unscale_kernel.h"

namespace lockstep::optim {
namespace {

constexpr std::int64_t kUnscaledPerThread = 1 << 16;

bool unscale_on_cpu(const at::Tensor& gradient, float factor) {
  if (gradient.scalar_type() != at::kFloat || !gradient.is_non_overlapping_and_dense()) {
    const bool finite = at::isfinite(gradient).all().item<bool>();
    gradient.mul_(factor);
    return finite;
  }
  std::atomic<bool> finite{true};
  auto* values = gradient.data_ptr<float>();
  tensor::parallel_for(0, gradient.numel(), kUnscaledPerThread, [&](std::int64_t begin, std::int64_t end) {
    if (!unscale_finite(values + begin, end - begin, factor)) finite.store(false, std::memory_order_relaxed);
  });
  return finite;
}

void unscale_on_device(const std::vector<at::Tensor>& gradients, const at::Tensor& inv_scale,
                       const at::Tensor& found_inf) {
  std::map<at::ScalarType, std::vector<at::Tensor>> by_dtype;  // libtorch's operation takes one dtype at a time
  for (const at::Tensor& gradient : gradients) by_dtype[gradient.scalar_type()].push_back(gradient);
  at::Tensor found = found_inf;
  for (const auto& item : by_dtype) at::_amp_foreach_non_finite_check_and_unscale_(item.second, found, inv_scale);
}

}  // namespace

void unscale_and_check(const std::vector<at::Tensor>& gradients, const at::Tensor& inv_scale,
                       const at::Tensor& found_inf) {
  const at::NoGradGuard no_grad;
  if (!found_inf.device().is_cpu()) {
    unscale_on_device(gradients, inv_scale, found_inf);
    return;
  }
  const auto factor = inv_scale.item<float>();
  bool finite = true;
  for (const at::Tensor& gradient : gradients) finite = unscale_on_cpu(gradient, factor) && finite;
  if (!finite) found_inf.fill_(1);
}

void update_scale(const at::Tensor& scale, const at::Tensor& growth_tracker, const at::Tensor& found_inf,
                  const ScaleRule& rule) {
  if (!scale.device().is_cpu()) {
    at::Tensor next = scale;
    at::Tensor tracker = growth_tracker;
    at::_amp_update_scale_(next, tracker, found_inf, rule.growth_factor, rule.backoff_factor, rule.growth_interval);
    return;
  }
  if (found_inf.item<float>() != 0) {
    scale.fill_(static_cast<float>(scale.item<float>() * rule.backoff_factor));
    growth_tracker.fill_(0);
    return;
  }
  const std::int64_t good = growth_tracker.item<std::int32_t>() + 1;
  growth_tracker.fill_(good == rule.growth_interval ? 0 : good);
  if (good != rule.growth_interval) return;
  const auto grown = static_cast<float>(scale.item<float>() * rule.growth_factor);
  if (std::isfinite(grown)) scale.fill_(grown);
}

}  // namespace lockstep::optim
