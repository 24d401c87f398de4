// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/lars.h"

#include <cmath>

#include "optim/foreach.h"
#include "optim/norm_blocks.h"
#include "optim/setup.h"

namespace lockstep {
namespace optim {
namespace {

class LarsRule : public Rule {
 public:
  static constexpr const char* kName = "LARS";

  explicit LarsRule(const LARSOptions& options) : momentum_(options.momentum), trust_(options.trust) {
    require_not_negative({kName, "momentum", momentum_});
    require_not_negative({kName, "trust", trust_});
  }

  [[nodiscard]] std::vector<StateKind> state() const override { return {{"momentum_buffer"}}; }
  [[nodiscard]] bool elementwise() const override { return false; }

  void update(const Memory& memory, const StepValues& now) const override {
    const NormPair norms = norms_by_blocks(memory, [](const Memory& block) {
      return NormPair{sum_of_squares(block.parameter, block.count), sum_of_squares(block.grad, block.count)};
    });
    const double grad_norm = norms.second * std::abs(now.grad_scale);
    const double quotient = trust_ * norms.first / (grad_norm + now.weight_decay * norms.first);
    const double rate = norms.first > 0 && grad_norm > 0 ? quotient : 1.0;
    const LarsStep step{.grad_scale = static_cast<float>(now.grad_scale),
                        .weight_decay = static_cast<float>(now.weight_decay),
                        .momentum = static_cast<float>(momentum_),
                        .rate = static_cast<float>(now.lr * rate)};
    in_parts(memory, [&](const Memory& part) { lars_update(part, step); });
  }

  void update_all(const TensorLists& lists, const StepValues& now) const override {
    const at::Tensor weights = norms_of(lists.parameters);
    const at::Tensor grads = norms_of(lists.grads);
    const at::Tensor rates = where_both(weights, grads, weights.mul(trust_).div(grads.add(weights, now.weight_decay)));
    const Tensors directions = at::_foreach_add(lists.grads, lists.parameters, now.weight_decay);
    at::_foreach_mul_(directions, rates.unbind());
    blend_all(lists.state[0], momentum_, directions, now.lr);
    at::_foreach_sub_(lists.parameters, lists.state[0]);
  }

 private:
  double momentum_;
  double trust_;
};

}  // namespace

Setup setup_of(LARSOptions options) { return make_setup<LarsRule>(std::move(options)); }

}  // namespace optim

LARS::LARS(NamedTensors parameters, LARSOptions options)
    : FlatOptimizer(std::move(parameters), optim::setup_of(std::move(options))) {}

}  // namespace lockstep
