// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/rmsprop.h"

#include "optim/foreach.h"
#include "optim/setup.h"

namespace lockstep {
namespace optim {
namespace {

class RmspropRule : public Rule {
 public:
  static constexpr const char* kName = "RMSprop";

  explicit RmspropRule(const RMSpropOptions& options)
      : alpha_(options.alpha), eps_(options.eps), momentum_(options.momentum), centered_(options.centered) {
    require_option(alpha_ >= 0 && alpha_ <= 1, {kName, "alpha", alpha_}, "in [0, 1]");
    require_not_negative({kName, "eps", eps_});
    require_not_negative({kName, "momentum", momentum_});
  }

  [[nodiscard]] std::vector<StateKind> state() const override {
    std::vector<StateKind> kinds{{"square_avg"}};
    if (momentum_ > 0) kinds.push_back({"momentum_buffer"});
    if (centered_) kinds.push_back({"grad_avg"});
    return kinds;
  }

  void update(const Memory& memory, const StepValues& now) const override {
    const RmspropStep step{.grad_scale = static_cast<float>(now.grad_scale),
                           .weight_decay = static_cast<float>(now.weight_decay),
                           .alpha = static_cast<float>(alpha_),
                           .one_minus_alpha = static_cast<float>(1 - alpha_),
                           .eps = static_cast<float>(eps_),
                           .momentum = static_cast<float>(momentum_),
                           .lr = static_cast<float>(now.lr),
                           .has_momentum = momentum_ > 0,
                           .centered = centered_};
    in_parts(memory, [&](const Memory& part) { rmsprop_update(part, step); });
  }

  void update_all(const TensorLists& lists, const StepValues& now) const override {
    const Tensors grads = regularised_all(lists, now.weight_decay);
    at::_foreach_mul_(lists.state[0], alpha_);
    at::_foreach_addcmul_(lists.state[0], grads, grads, 1 - alpha_);
    const Tensors roots = at::_foreach_sqrt(centered_ ? variances(lists, grads) : lists.state[0]);
    at::_foreach_add_(roots, eps_);
    if (momentum_ == 0) return at::_foreach_addcdiv_(lists.parameters, grads, roots, -now.lr);
    at::_foreach_mul_(lists.state[1], momentum_);
    at::_foreach_addcdiv_(lists.state[1], grads, roots);
    at::_foreach_add_(lists.parameters, lists.state[1], -now.lr);
  }

 private:
  [[nodiscard]] Tensors variances(const TensorLists& lists, const Tensors& grads) const {
    const Tensors& averages = lists.state.back();
    blend_all(averages, alpha_, grads, 1 - alpha_);
    Tensors values = at::_foreach_addcmul(lists.state[0], averages, averages, -1);
    at::_foreach_abs_(values);
    return values;
  }

  double alpha_;
  double eps_;
  double momentum_;
  bool centered_;
};

}  // namespace

Setup setup_of(RMSpropOptions options) { return make_setup<RmspropRule>(std::move(options)); }

}  // namespace optim

RMSprop::RMSprop(NamedTensors parameters, RMSpropOptions options)
    : FlatOptimizer(std::move(parameters), optim::setup_of(std::move(options))) {}

}  // namespace lockstep
