// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/lamb.h"

#include <cmath>

#include "optim/adam_rule.h"
#include "optim/norm_blocks.h"
#include "optim/setup.h"

namespace lockstep {
namespace optim {
namespace {

class LambRule : public Rule {
 public:
  static constexpr const char* kName = "LAMB";

  explicit LambRule(const LAMBOptions& options) : betas_(options.betas), eps_(options.eps) {
    require_betas(kName, betas_);
    require_not_negative({kName, "eps", eps_});
  }

  [[nodiscard]] std::vector<StateKind> state() const override { return {{"exp_avg"}, {"exp_avg_sq"}}; }
  [[nodiscard]] bool elementwise() const override { return false; }

  void update(const Memory& memory, const StepValues& now) const override {
    const LambStep step{
        .adam = adam_step(betas_, eps_, now),
        .over_correction1 = static_cast<float>(1 / (1 - std::pow(betas_[0], static_cast<double>(now.step)))),
        .weight_decay = static_cast<float>(now.weight_decay)};
    const NormPair norms = norms_by_blocks(memory, [&](const Memory& block) {
      std::array<float, kNormBlockElements> direction;  // it stays in the cache; the second pass recomputes it
      Memory moments = block;
      moments.digest = {};  // the second pass digests the weights after the step
      lamb_moments(moments, step, direction.data());
      return NormPair{sum_of_squares(block.parameter, block.count), sum_of_squares(direction.data(), block.count)};
    });
    const double trust = norms.first > 0 && norms.second > 0 ? norms.first / norms.second : 1.0;
    const auto rate = static_cast<float>(now.lr * trust);
    in_parts(memory, [&](const Memory& part) { lamb_move(part, step, rate); });
  }

  void update_all(const TensorLists& lists, const StepValues& now) const override {
    const auto steps = static_cast<double>(now.step);
    blend_all(lists.state[0], betas_[0], lists.grads, 1 - betas_[0]);
    at::_foreach_mul_(lists.state[1], betas_[1]);
    at::_foreach_addcmul_(lists.state[1], lists.grads, lists.grads, 1 - betas_[1]);
    const Tensors roots = at::_foreach_sqrt(lists.state[1]);
    at::_foreach_div_(roots, std::sqrt(1 - std::pow(betas_[1], steps)));
    at::_foreach_add_(roots, eps_);
    const Tensors directions = at::_foreach_mul(lists.parameters, now.weight_decay);
    at::_foreach_addcdiv_(directions, lists.state[0], roots, 1 / (1 - std::pow(betas_[0], steps)));
    const at::Tensor norms = norms_of(lists.parameters);
    const at::Tensor lengths = norms_of(directions);
    at::_foreach_mul_(directions, where_both(norms, lengths, norms.div(lengths)).unbind());
    at::_foreach_add_(lists.parameters, directions, -now.lr);
  }

 private:
  std::array<double, 2> betas_;
  double eps_;
};

}  // namespace

Setup setup_of(LAMBOptions options) { return make_setup<LambRule>(std::move(options)); }

}  // namespace optim

LAMB::LAMB(NamedTensors parameters, LAMBOptions options)
    : FlatOptimizer(std::move(parameters), optim::setup_of(std::move(options))) {}

}  // namespace lockstep
