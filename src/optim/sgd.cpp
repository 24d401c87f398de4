// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/sgd.h"

#include "lockstep/base/error.h"
#include "optim/foreach.h"
#include "optim/setup.h"

namespace lockstep {
namespace optim {
namespace {

class SgdRule : public Rule {
 public:
  static constexpr const char* kName = "SGD";

  explicit SgdRule(const SGDOptions& options)
      : momentum_(options.momentum), dampening_(options.dampening), nesterov_(options.nesterov) {
    require_not_negative({kName, "momentum", momentum_});
    require_option(dampening_ >= 0 && dampening_ <= 1, {kName, "dampening", dampening_}, "in [0, 1]");
    if (nesterov_ && (momentum_ == 0 || dampening_ != 0)) {
      throw UsageError("SGD with nesterov requires a momentum and zero dampening",
                       "set momentum above 0 and dampening to 0");
    }
  }

  [[nodiscard]] std::vector<StateKind> state() const override {
    if (momentum_ == 0) return {};
    return {{"momentum_buffer"}};
  }

  void update(const Memory& memory, const StepValues& now) const override {
    const SgdStep step{.grad_scale = static_cast<float>(now.grad_scale),
                       .weight_decay = static_cast<float>(now.weight_decay),
                       .momentum = static_cast<float>(kept(now)),
                       .new_share = static_cast<float>(added(now)),
                       .nesterov = static_cast<float>(momentum_),
                       .lr = static_cast<float>(now.lr)};
    const auto kernel = momentum_ == 0 ? sgd_update : nesterov_ ? sgd_nesterov_update : sgd_momentum_update;
    in_parts(memory, [&](const Memory& part) { kernel(part, step); });
  }

  void update_all(const TensorLists& lists, const StepValues& now) const override {
    const Tensors grads = regularised_all(lists, now.weight_decay);
    if (momentum_ == 0) return at::_foreach_add_(lists.parameters, grads, -now.lr);
    blend_all(lists.state[0], kept(now), grads, added(now));
    const Tensors directions = nesterov_ ? at::_foreach_add(grads, lists.state[0], momentum_) : lists.state[0];
    at::_foreach_add_(lists.parameters, directions, -now.lr);
  }

  [[nodiscard]] bool has_fused(c10::DeviceType device) const override { return fused_sgd().on(device); }
  void update_fused(const TensorLists& lists, const StepValues& now) const override {
    run_fused_sgd(lists, now, {.momentum = momentum_, .dampening = dampening_, .nesterov = nesterov_});
  }

 private:
  /// Returns the share of the buffer that is kept. In the first step the buffer is zero and becomes the gradient
  /// without dampening.
  [[nodiscard]] double kept(const StepValues& now) const { return now.step == 1 ? 0 : momentum_; }
  [[nodiscard]] double added(const StepValues& now) const { return now.step == 1 ? 1 : 1 - dampening_; }

  double momentum_;
  double dampening_;
  bool nesterov_;
};

}  // namespace

Setup setup_of(SGDOptions options) { return make_setup<SgdRule>(std::move(options)); }

}  // namespace optim

SGD::SGD(NamedTensors parameters, SGDOptions options)
    : FlatOptimizer(std::move(parameters), optim::setup_of(std::move(options))) {}

}  // namespace lockstep
