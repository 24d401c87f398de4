// SPDX-License-Identifier: Apache-2.0
// The rule that Adam and AdamW share; they differ in their use of weight decay.
#pragma once

#include <array>
#include <vector>

#include "optim/foreach.h"
#include "optim/rule.h"

namespace lockstep::optim {

struct AdamRuleOptions {
  const char* optimizer = "Adam";
  std::array<double, 2> betas = {};
  double eps = 0;
  bool amsgrad = false;
  bool decoupled = false;  ///< weight decay shrinks the parameter (AdamW) instead of being added to the gradient
};

class AdamRule : public Rule {
 public:
  explicit AdamRule(const AdamRuleOptions& options);
  [[nodiscard]] std::vector<StateKind> state() const override;
  void update(const Memory& memory, const StepValues& now) const override;
  void update_all(const TensorLists& lists, const StepValues& now) const override;
  [[nodiscard]] bool has_fused(c10::DeviceType device) const override { return fused_adam().on(device); }
  void update_fused(const TensorLists& lists, const StepValues& now) const override;

 private:
  AdamRuleOptions options_;
};

/// Returns the constants of Adam's moments, and lr / (1 - beta1^step).
[[nodiscard]] AdamStep adam_step(const std::array<double, 2>& betas, double eps, const StepValues& now);

}  // namespace lockstep::optim
