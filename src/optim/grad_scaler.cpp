// SPDX-License-Identifier: Apache-2.0
// GradScaler: the same state machine as PyTorch's, and the unscaling of tensors.
#include "lockstep/optim/grad_scaler.h"

#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/tensor/threads.h"
#include "optim/unscale_kernel.h"

namespace lockstep::optim {
namespace {

// libtorch's operator unscales on CUDA. Before 2.3 libtorch has none for the CPU, so Lockstep's kernel does it there.

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
  // Autograd does not see the kernel's writes. An inference tensor has no version.
  if (!gradient.is_inference()) gradient.unsafeGetTensorImpl()->bump_version();
  return finite;
}

void unscale_on_device(const std::vector<at::Tensor>& gradients, const at::Tensor& inv_scale,
                       const at::Tensor& found_inf) {
  std::map<at::ScalarType, std::vector<at::Tensor>> by_dtype;  // libtorch's operator takes tensors of one dtype
  for (const at::Tensor& gradient : gradients) by_dtype[gradient.scalar_type()].push_back(gradient);
  at::Tensor found = found_inf;
  for (const auto& item : by_dtype) at::_amp_foreach_non_finite_check_and_unscale_(item.second, found, inv_scale);
}

/// Multiplies `gradients` in place by `inv_scale` (a float32 scalar) and sets `found_inf` (a float32 scalar) to 1 if an
/// element was inf or NaN before. All tensors are on the same device. Cost: one pass, 8 bytes of memory traffic for
/// each float32 element.
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

}  // namespace
}  // namespace lockstep::optim

namespace lockstep {
namespace {

void check_growth_factor(double factor) {
  if (factor > 1 && std::isfinite(factor)) return;
  throw UsageError(fmt::format("GradScaler's growth_factor is {}, which is not above 1", factor));
}

void check_backoff_factor(double factor) {
  if (factor > 0 && factor < 1) return;
  throw UsageError(fmt::format("GradScaler's backoff_factor is {}, which is not in (0, 1)", factor));
}

void check_growth_interval(std::int64_t interval) {
  if (interval > 0) return;
  throw UsageError(fmt::format("GradScaler's growth_interval is {}, which is not at least 1", interval));
}

void check_scale(double scale, const char* name) {
  if (scale > 0 && std::isfinite(static_cast<float>(scale))) return;
  throw UsageError(fmt::format("GradScaler's {} is {}, which is not above 0 and finite in float32", name, scale));
}

void check_options(const GradScalerOptions& options) {
  check_scale(options.init_scale, "init_scale");
  check_growth_factor(options.growth_factor);
  check_backoff_factor(options.backoff_factor);
  check_growth_interval(options.growth_interval);
}

/// Returns the tensor with the values of a parameter's gradient, to be unscaled.
at::Tensor values_of(const std::string& name, const at::Tensor& gradient) {
  if (gradient.scalar_type() == at::kHalf) {
    throw UsageError(fmt::format("the gradient of '{}' is float16, which GradScaler does not unscale", name),
                     "keep weights in float32 and compute in float16 with lockstep::Autocast");
  }
  return gradient.is_sparse() ? gradient._values() : gradient;
}

std::vector<at::Tensor> gradients_of(const Optimizer& optimizer) {
  std::vector<at::Tensor> gradients;
  for (const auto& [name, value] : optimizer.parameters()) {
    if (value.grad().defined()) gradients.push_back(values_of(name, value.grad()));
  }
  return gradients;
}

template <class T>
T entry(const StateDict& state, const std::string& name) {
  const auto found = state.find(name);
  const auto* value = found == state.end() ? nullptr : std::get_if<T>(&found->second);
  if (value == nullptr) throw DataError(fmt::format("the scaler's state has no valid entry '{}'", name));
  return *value;
}

void refuse_unknown(const StateDict& state) {
  const std::set<std::string> known = {"scale", "growth_factor", "backoff_factor", "growth_interval",
                                       "_growth_tracker"};
  for (const auto& item : state) {
    if (known.count(item.first) == 0)
      throw DataError(fmt::format("the scaler's state has an unknown entry '{}'", item.first));
  }
}

}  // namespace

GradScaler::GradScaler(GradScalerOptions options) : options_(std::move(options)), value_(options_.init_scale) {
  if (options_.enabled) check_options(options_);
}

void GradScaler::require_scale(const char* call) const {
  if (scale_.defined()) return;
  throw UsageError(fmt::format("GradScaler::{} was called before scale()", call), "call scale(loss).backward() first");
}

at::Tensor GradScaler::scale(const at::Tensor& output) {
  if (!options_.enabled) return output;
  if (!scale_.defined()) {
    scale_ = at::full({}, value_, output.options().dtype(at::kFloat).requires_grad(false));
    value_ = static_cast<float>(value_);
  }
  return output.mul(scale_.to(output.device(), scale_.scalar_type(), /*non_blocking=*/true));
}

void GradScaler::unscale_(Optimizer& optimizer) {
  if (options_.enabled) unscale_(optimizer, gradients_of(optimizer));
}

void GradScaler::unscale_(Optimizer& optimizer, const std::vector<at::Tensor>& gradients) {
  if (!options_.enabled) return;
  require_scale("unscale_");
  PerOptimizer& state = optimizers_[&optimizer];
  if (state.stage == Stage::kUnscaled) {
    throw UsageError("unscale_() has already been called on this optimizer since the last update()");
  }
  if (state.stage == Stage::kStepped) {
    throw UsageError("unscale_() is being called after step()", "call update() at the end of each iteration");
  }
  // Divides in double, because a float32 division could change the last bit of all gradients.
  const at::Tensor inv_scale = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  state.found_inf = at::zeros({}, scale_.options());
  optim::unscale_and_check(gradients, inv_scale, state.found_inf);
  if (options_.combine) options_.combine(state.found_inf);
  state.stage = Stage::kUnscaled;
}

bool GradScaler::step(Optimizer& optimizer, double grad_scale) {
  const bool steps = may_step(optimizer);
  if (steps) optimizer.step(grad_scale);
  return steps;
}

bool GradScaler::step(Optimizer& optimizer, const at::Tensor& grad_scale) {
  const bool steps = may_step(optimizer);
  if (steps) optimizer.step_scaled_by(grad_scale);
  return steps;
}

bool GradScaler::may_step(Optimizer& optimizer) {
  if (!options_.enabled) return true;
  require_scale("step");
  if (optimizers_[&optimizer].stage == Stage::kStepped) {
    throw UsageError("step() has already been called since the last update()",
                     "call update() at the end of each iteration");
  }
  if (optimizers_[&optimizer].stage == Stage::kReady) unscale_(optimizer);
  PerOptimizer& state = optimizers_[&optimizer];
  state.stage = Stage::kStepped;
  state.finite = state.found_inf.item<float>() == 0;
  return *state.finite;
}

void GradScaler::update(std::optional<double> new_scale) {
  if (!options_.enabled) return;
  require_scale("update");
  if (new_scale) {
    check_scale(*new_scale, "new scale");
    set_scale(*new_scale);
    optimizers_.clear();
    return;
  }
  if (!all_finite()) {
    set_scale(value_ * options_.backoff_factor);
    growth_tracker_ = 0;
  } else if (++growth_tracker_ == options_.growth_interval) {
    growth_tracker_ = 0;
    const auto grown = static_cast<float>(value_ * options_.growth_factor);
    if (std::isfinite(grown)) set_scale(grown);
  }
  optimizers_.clear();
}

bool GradScaler::all_finite() {
  bool checked = false;
  bool finite = true;
  for (const auto& item : optimizers_) {
    const PerOptimizer& one = item.second;
    if (!one.found_inf.defined()) continue;
    checked = true;
    finite = (one.finite ? *one.finite : one.found_inf.item<float>() == 0) && finite;
  }
  if (checked) return finite;
  throw UsageError("GradScaler::update() was called before any gradient was checked",
                   "call unscale_() or step() first");
}

void GradScaler::set_scale(double scale) {
  value_ = static_cast<float>(scale);
  scale_.fill_(value_);
}

StateDict GradScaler::state_dict() const {
  if (!options_.enabled) return {};
  return {{"scale", get_scale()},
          {"growth_factor", options_.growth_factor},
          {"backoff_factor", options_.backoff_factor},
          {"growth_interval", options_.growth_interval},
          {"_growth_tracker", growth_tracker_}};
}

void GradScaler::load_state_dict(const StateDict& state) {
  if (!options_.enabled) return;
  refuse_unknown(state);
  GradScalerOptions loaded = options_;
  loaded.init_scale = entry<double>(state, "scale");
  loaded.growth_factor = entry<double>(state, "growth_factor");
  loaded.backoff_factor = entry<double>(state, "backoff_factor");
  loaded.growth_interval = entry<std::int64_t>(state, "growth_interval");
  const auto tracker = entry<std::int64_t>(state, "_growth_tracker");
  try {
    check_options(loaded);
  } catch (const UsageError& error) {
    throw DataError(fmt::format("the scaler's saved state: {}", error.message()));
  }
  if (tracker < 0 || tracker >= loaded.growth_interval) {
    throw DataError(
        fmt::format("the scaler's saved state: _growth_tracker is {} of {}", tracker, loaded.growth_interval));
  }
  options_ = std::move(loaded);
  growth_tracker_ = tracker;
  value_ = options_.init_scale;
  if (scale_.defined()) set_scale(value_);
}

}  // namespace lockstep
