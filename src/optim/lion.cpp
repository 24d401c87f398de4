// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/lion.h"

#include "optim/foreach.h"
#include "optim/setup.h"

namespace lockstep {
namespace optim {
namespace {

class LionRule : public Rule {
 public:
  static constexpr const char* kName = "Lion";

  explicit LionRule(const LionOptions& options) : betas_(options.betas) { require_betas(kName, betas_); }

  [[nodiscard]] std::vector<StateKind> state() const override { return {{"exp_avg"}}; }

  void update(const Memory& memory, const StepValues& now) const override {
    const LionStep step{.grad_scale = static_cast<float>(now.grad_scale),
                        .weight_decay = static_cast<float>(now.weight_decay),
                        .beta1 = static_cast<float>(betas_[0]),
                        .one_minus_beta1 = static_cast<float>(1 - betas_[0]),
                        .beta2 = static_cast<float>(betas_[1]),
                        .one_minus_beta2 = static_cast<float>(1 - betas_[1]),
                        .lr = static_cast<float>(now.lr)};
    in_parts(memory, [&](const Memory& part) { lion_update(part, step); });
  }

  void update_all(const TensorLists& lists, const StepValues& now) const override {
    const Tensors aims = at::_foreach_mul(lists.state[0], betas_[0]);
    at::_foreach_add_(aims, lists.grads, 1 - betas_[0]);
    take_signs(aims);
    at::_foreach_add_(aims, lists.parameters, now.weight_decay);
    at::_foreach_add_(lists.parameters, aims, -now.lr);
    blend_all(lists.state[0], betas_[1], lists.grads, 1 - betas_[1]);
  }

 private:
  std::array<double, 2> betas_;
};

}  // namespace

Setup setup_of(LionOptions options) { return make_setup<LionRule>(std::move(options)); }

}  // namespace optim

Lion::Lion(NamedTensors parameters, LionOptions options)
    : FlatOptimizer(std::move(parameters), optim::setup_of(std::move(options))) {}

}  // namespace lockstep
