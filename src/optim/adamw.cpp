// SPDX-License-Identifier: Apache-2.0
// AdamW: flat state, the choice between the fused pass and plain ATen operations, and strict loading.
#include "lockstep/optim/adamw.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/tensor/flat_layout.h"
#include "optim/adamw_kernel.h"

namespace lockstep {
namespace {

constexpr std::int64_t kElementsPerThread = 1 << 16;

void require(bool ok, const char* name, double value, const char* range) {
  if (!ok) throw UsageError(fmt::format("AdamW's {} is {}, which is not {}", name, value, range));
}

void check_options(const AdamWOptions& options) {
  require(options.lr >= 0 && std::isfinite(options.lr), "lr", options.lr, ">= 0");
  require(options.betas[0] >= 0 && options.betas[0] < 1, "first beta", options.betas[0], "in [0, 1)");
  require(options.betas[1] >= 0 && options.betas[1] < 1, "second beta", options.betas[1], "in [0, 1)");
  require(options.eps >= 0, "eps", options.eps, ">= 0");
  require(options.weight_decay >= 0, "weight_decay", options.weight_decay, ">= 0");
}

void check_dtypes(const NamedTensors& parameters) {
  for (const auto& [name, value] : parameters) {
    if (value.scalar_type() == at::kFloat || value.scalar_type() == at::kDouble) continue;
    throw UsageError(fmt::format("parameter '{}' is {}", name, c10::toString(value.scalar_type())),
                     "keep weights in float32 and compute in less by lockstep::Autocast");
  }
}

/// The constants of one step in double, for both paths.
struct StepConstants {
  double grad_scale;
  double decay;
  double step_size;
  double root_correction2;
};

StepConstants step_constants(const AdamWOptions& options, std::int64_t steps, bool decay, double grad_scale) {
  const auto step = static_cast<double>(steps);
  return {.grad_scale = grad_scale,
          .decay = decay ? 1 - options.lr * options.weight_decay : 1.0,
          .step_size = options.lr / (1 - std::pow(options.betas[0], step)),
          .root_correction2 = std::sqrt(1 - std::pow(options.betas[1], step))};
}

optim::AdamWStep to_float(const AdamWOptions& options, const StepConstants& constants) {
  return {.grad_scale = static_cast<float>(constants.grad_scale),
          .decay = static_cast<float>(constants.decay),
          .beta1 = static_cast<float>(options.betas[0]),
          .one_minus_beta1 = static_cast<float>(1 - options.betas[0]),
          .beta2 = static_cast<float>(options.betas[1]),
          .one_minus_beta2 = static_cast<float>(1 - options.betas[1]),
          .root_correction2 = static_cast<float>(constants.root_correction2),
          .eps = static_cast<float>(options.eps),
          .step_size = static_cast<float>(constants.step_size)};
}

void update_fused(const optim::AdamWMemory& memory, std::int64_t numel, const optim::AdamWStep& step) {
  // Elements are independent, so threads change no bits.
  at::parallel_for(0, numel, kElementsPerThread, [&](std::int64_t begin, std::int64_t end) {
    optim::adamw_fused(
        {memory.parameter + begin, memory.grad + begin, memory.exp_avg + begin, memory.exp_avg_sq + begin}, end - begin,
        step);
  });
}

/// One parameter's tensors, for the path through ATen.
struct PlainTensors {
  const at::Tensor& parameter;
  at::Tensor grad;
  const at::Tensor& exp_avg;
  const at::Tensor& exp_avg_sq;
};

void update_plain(const PlainTensors& of, const AdamWOptions& options, const StepConstants& constants) {
  const at::Tensor grad = constants.grad_scale == 1.0 ? of.grad : of.grad.mul(constants.grad_scale);
  of.parameter.mul_(constants.decay);
  of.exp_avg.mul_(options.betas[0]).add_(grad, 1 - options.betas[0]);
  of.exp_avg_sq.mul_(options.betas[1]).addcmul_(grad, grad, 1 - options.betas[1]);
  const at::Tensor denominator = of.exp_avg_sq.sqrt().div_(constants.root_correction2).add_(options.eps);
  of.parameter.addcdiv_(of.exp_avg, denominator, -constants.step_size);
}

/// `grad` in the parameter's memory order: itself unless the user has put in one of another layout.
at::Tensor in_layout_of(const at::Tensor& parameter, const at::Tensor& grad) {
  if (grad.strides() == parameter.strides()) return grad;
  return at::empty_strided(parameter.sizes(), parameter.strides(), parameter.options()).copy_(grad);
}

}  // namespace

AdamW::AdamW(NamedTensors parameters, AdamWOptions options)
    : parameters_(tensor::without_repeats(std::move(parameters))), options_(std::move(options)) {
  check_options(options_);
  check_dtypes(parameters_);
  std::map<std::string, NamedTensors> groups;  // one flat buffer per dtype and device
  for (const auto& item : parameters_) {
    groups[fmt::format("{} {}", c10::toString(item.second.scalar_type()), item.second.device().str())].push_back(item);
  }
  std::map<std::string, Slot> by_name;
  for (const auto& [key, items] : groups) {
    const at::Tensor& any = items.front().second;
    const tensor::FlatLayout layout = tensor::flat_layout(items, any.scalar_type());
    const at::Tensor exp_avg = at::zeros({layout.numel}, any.options().requires_grad(false));
    const at::Tensor exp_avg_sq = at::zeros({layout.numel}, any.options().requires_grad(false));
    for (const auto& slot : layout.slots) {
      by_name[slot.name] = {.exp_avg = tensor::flat_view(exp_avg, slot),
                            .exp_avg_sq = tensor::flat_view(exp_avg_sq, slot),
                            .steps = 0,
                            .decay = !options_.no_decay || !options_.no_decay(slot.name)};
    }
  }
  for (const auto& item : parameters_) slots_.push_back(std::move(by_name[item.first]));
}

void AdamW::step(double grad_scale) {
  const at::NoGradGuard no_grad;
  ++steps_;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].second.grad().defined()) update(i, grad_scale);
  }
}

void AdamW::update(std::size_t index, double grad_scale) {
  const auto& [name, parameter] = parameters_[index];
  Slot& slot = slots_[index];
  if (parameter.grad().is_sparse()) {
    throw UsageError(fmt::format("the gradient of '{}' is sparse, which AdamW does not take", name));
  }
  ++slot.steps;
  const StepConstants constants = step_constants(options_, slot.steps, slot.decay, grad_scale);
  const bool fused = parameter.scalar_type() == at::kFloat && parameter.device().is_cpu() &&
                     parameter.strides() == slot.exp_avg.strides();
  if (!fused) {
    update_plain({parameter, parameter.grad(), slot.exp_avg, slot.exp_avg_sq}, options_, constants);
    return;
  }
  const at::Tensor grad = in_layout_of(parameter, parameter.grad());
  update_fused({parameter.data_ptr<float>(), grad.data_ptr<float>(), slot.exp_avg.data_ptr<float>(),
                slot.exp_avg_sq.data_ptr<float>()},
               parameter.numel(), to_float(options_, constants));
}

void AdamW::set_lr(double lr) {
  require(lr >= 0 && std::isfinite(lr), "lr", lr, ">= 0");
  options_.lr = lr;
}

StateDict AdamW::state_dict() const {
  StateDict state{{"step", steps_}};
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const std::string& name = parameters_[i].first;
    state.emplace(name + ".exp_avg", slots_[i].exp_avg);
    state.emplace(name + ".exp_avg_sq", slots_[i].exp_avg_sq);
    if (slots_[i].steps != steps_) state.emplace(name + ".step", slots_[i].steps);
  }
  return state;
}

void AdamW::load_state_dict(const StateDict& state) {
  StateDict tensors = state;
  const auto take_steps = [&tensors](const std::string& key, std::optional<std::int64_t> missing) {
    const auto found = tensors.find(key);
    if (found == tensors.end() && missing) return *missing;
    const auto* steps = found == tensors.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
    if (steps == nullptr || *steps < 0) throw DataError(fmt::format("the optimizer's state has no count '{}'", key));
    const std::int64_t value = *steps;
    tensors.erase(found);
    return value;
  };
  const std::int64_t steps = take_steps("step", std::nullopt);
  std::vector<std::int64_t> own_steps;
  NamedTensors into;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const std::string& name = parameters_[i].first;
    own_steps.push_back(take_steps(name + ".step", steps));
    into.emplace_back(name + ".exp_avg", slots_[i].exp_avg);
    into.emplace_back(name + ".exp_avg_sq", slots_[i].exp_avg_sq);
  }
  load_tensors(into, tensors);
  steps_ = steps;
  for (std::size_t i = 0; i < slots_.size(); ++i) slots_[i].steps = own_steps[i];
}

}  // namespace lockstep
