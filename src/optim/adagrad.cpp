// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/adagrad.h"

#include "optim/foreach.h"
#include "optim/setup.h"

namespace lockstep {
namespace optim {
namespace {

class AdagradRule : public Rule {
 public:
  static constexpr const char* kName = "Adagrad";

  explicit AdagradRule(const AdagradOptions& options)
      : lr_decay_(options.lr_decay), eps_(options.eps), start_(options.initial_accumulator_value) {
    require_not_negative({kName, "lr_decay", lr_decay_});
    require_not_negative({kName, "eps", eps_});
    require_not_negative({kName, "initial_accumulator_value", start_});
  }

  [[nodiscard]] std::vector<StateKind> state() const override { return {{"sum", start_}}; }

  void update(const Memory& memory, const StepValues& now) const override {
    const AdagradStep step{.grad_scale = static_cast<float>(now.grad_scale),
                           .weight_decay = static_cast<float>(now.weight_decay),
                           .eps = static_cast<float>(eps_),
                           .lr = static_cast<float>(rate(now))};
    in_parts(memory, [&](const Memory& part) { adagrad_update(part, step); });
  }

  void update_all(const TensorLists& lists, const StepValues& now) const override {
    const Tensors grads = regularised_all(lists, now.weight_decay);
    at::_foreach_addcmul_(lists.state[0], grads, grads, 1);
    const Tensors roots = at::_foreach_sqrt(lists.state[0]);
    at::_foreach_add_(roots, eps_);
    at::_foreach_addcdiv_(lists.parameters, grads, roots, -rate(now));
  }

  [[nodiscard]] bool has_fused(c10::DeviceType device) const override { return fused_adagrad().on(device); }
  void update_fused(const TensorLists& lists, const StepValues& now) const override {
    run_fused_adagrad(lists, now, {.lr_decay = lr_decay_, .eps = eps_});
  }

 private:
  [[nodiscard]] double rate(const StepValues& now) const {
    return now.lr / (1 + static_cast<double>(now.step - 1) * lr_decay_);
  }

  double lr_decay_;
  double eps_;
  double start_;
};

}  // namespace

Setup setup_of(AdagradOptions options) { return make_setup<AdagradRule>(std::move(options)); }

}  // namespace optim

Adagrad::Adagrad(NamedTensors parameters, AdagradOptions options)
    : FlatOptimizer(std::move(parameters), optim::setup_of(std::move(options))) {}

}  // namespace lockstep
