// SPDX-License-Identifier: Apache-2.0
// Adam and AdamW.
#include "lockstep/optim/adam.h"

#include <cmath>

#include "lockstep/optim/adamw.h"
#include "optim/adam_rule.h"
#include "optim/setup.h"

namespace lockstep {
namespace optim {
namespace {

struct Corrections {
  double first;        ///< 1 - beta1^step
  double root_second;  ///< sqrt(1 - beta2^step)
};

Corrections corrections_of(const std::array<double, 2>& betas, std::int64_t steps) {
  const auto step = static_cast<double>(steps);
  return {1 - std::pow(betas[0], step), std::sqrt(1 - std::pow(betas[1], step))};
}

class AdamWOptionsRule : public AdamRule {
 public:
  static constexpr const char* kName = "AdamW";
  explicit AdamWOptionsRule(const AdamWOptions& options)
      : AdamRule({.optimizer = kName,
                  .betas = options.betas,
                  .eps = options.eps,
                  .amsgrad = options.amsgrad,
                  .decoupled = true}) {}
};

class AdamOptionsRule : public AdamRule {
 public:
  static constexpr const char* kName = "Adam";
  explicit AdamOptionsRule(const AdamOptions& options)
      : AdamRule({.optimizer = kName, .betas = options.betas, .eps = options.eps, .amsgrad = options.amsgrad}) {}
};

}  // namespace

AdamStep adam_step(const std::array<double, 2>& betas, double eps, const StepValues& now) {
  const Corrections corrections = corrections_of(betas, now.step);
  return {.grad_scale = static_cast<float>(now.grad_scale),
          .beta1 = static_cast<float>(betas[0]),
          .one_minus_beta1 = static_cast<float>(1 - betas[0]),
          .beta2 = static_cast<float>(betas[1]),
          .one_minus_beta2 = static_cast<float>(1 - betas[1]),
          .root_correction2 = static_cast<float>(corrections.root_second),
          .eps = static_cast<float>(eps),
          .step_size = static_cast<float>(now.lr / corrections.first)};
}

AdamRule::AdamRule(const AdamRuleOptions& options) : options_(options) {
  require_betas(options.optimizer, options.betas);
  require_not_negative({options.optimizer, "eps", options.eps});
}

std::vector<StateKind> AdamRule::state() const {
  std::vector<StateKind> kinds{{"exp_avg"}, {"exp_avg_sq"}};
  if (options_.amsgrad) kinds.push_back({"max_exp_avg_sq"});
  return kinds;
}

void AdamRule::update(const Memory& memory, const StepValues& now) const {
  AdamStep step = adam_step(options_.betas, options_.eps, now);
  step.amsgrad = options_.amsgrad;
  if (options_.decoupled) {
    step.decay = static_cast<float>(1 - now.lr * now.weight_decay);
    in_parts(memory, [&](const Memory& part) { adamw_update(part, step); });
  } else {
    step.l2 = static_cast<float>(now.weight_decay);
    in_parts(memory, [&](const Memory& part) { adam_l2_update(part, step); });
  }
}

void AdamRule::update_all(const TensorLists& lists, const StepValues& now) const {
  const Corrections corrections = corrections_of(options_.betas, now.step);
  const Tensors grads = options_.decoupled ? lists.grads : regularised_all(lists, now.weight_decay);
  if (options_.decoupled) at::_foreach_mul_(lists.parameters, 1 - now.lr * now.weight_decay);
  blend_all(lists.state[0], options_.betas[0], grads, 1 - options_.betas[0]);
  at::_foreach_mul_(lists.state[1], options_.betas[1]);
  at::_foreach_addcmul_(lists.state[1], grads, grads, 1 - options_.betas[1]);
  if (options_.amsgrad) at::_foreach_maximum_(lists.state[2], lists.state[1]);
  const Tensors denominators = at::_foreach_sqrt(lists.state[options_.amsgrad ? 2 : 1]);
  at::_foreach_div_(denominators, corrections.root_second);
  at::_foreach_add_(denominators, options_.eps);
  at::_foreach_addcdiv_(lists.parameters, lists.state[0], denominators, -now.lr / corrections.first);
}

void AdamRule::update_fused(const TensorLists& lists, const StepValues& now) const {
  run_fused_adam(
      lists, now,
      {.betas = options_.betas, .eps = options_.eps, .amsgrad = options_.amsgrad, .decoupled = options_.decoupled});
}

Setup setup_of(AdamWOptions options) { return make_setup<AdamWOptionsRule>(std::move(options)); }
Setup setup_of(AdamOptions options) { return make_setup<AdamOptionsRule>(std::move(options)); }

}  // namespace optim

AdamW::AdamW(NamedTensors parameters, AdamWOptions options)
    : FlatOptimizer(std::move(parameters), optim::setup_of(std::move(options))) {}

Adam::Adam(NamedTensors parameters, AdamOptions options)
    : FlatOptimizer(std::move(parameters), optim::setup_of(std::move(options))) {}

}  // namespace lockstep
