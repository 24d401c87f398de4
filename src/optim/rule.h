// SPDX-License-Identifier: Apache-2.0
// The parts that differ between optimizers: the state, and the update by a kernel or by libtorch's operators.
// FlatOptimizer has the common parts: groups, flat memory, entries and the choice between kernel and operators.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/optim/parameter_groups.h"
#include "optim/kernels.h"

namespace lockstep::optim {

/// One tensor of a parameter's state.
struct StateKind {
  std::string name;
  double start = 0;
};

/// The values for one step. Each parameter counts the steps in which it had a gradient, from 1.
struct StepValues {
  double lr = 0;
  double weight_decay = 0;
  std::int64_t step = 1;
  double grad_scale = 1;
};

/// Several parameters of one dtype and device. All lists have the same length.
struct TensorLists {
  std::vector<at::Tensor> parameters = {};
  std::vector<at::Tensor> grads = {};  ///< gradients, already scaled; they must not be changed
  std::vector<std::vector<at::Tensor>> state = {};
};

/// The update rule of one group. It holds the group's options except lr and weight decay.
class Rule {
 public:
  virtual ~Rule() = default;
  [[nodiscard]] virtual std::vector<StateKind> state() const = 0;
  /// Returns false if the rule needs whole parameters.
  [[nodiscard]] virtual bool elementwise() const { return true; }

  /// Updates one dense float32 parameter on the CPU with kernels, on libtorch's threads.
  virtual void update(const Memory& memory, const StepValues& now) const = 0;
  /// Updates several parameters of any kind with libtorch's multi-tensor operators; grad_scale is already applied.
  virtual void update_all(const TensorLists& lists, const StepValues& now) const = 0;

  /// Returns true if this libtorch has one operator for the whole update on `device`.
  [[nodiscard]] virtual bool has_fused(c10::DeviceType /*device*/) const { return false; }
  /// Updates with this fused operator; parameters, gradients and state have equal, dense strides.
  virtual void update_fused(const TensorLists& lists, const StepValues& now) const { update_all(lists, now); }
};

/// Parameters with common options.
struct Group {
  std::string pattern = {};  ///< pattern of the group; empty for the default group
  double own_lr = 0;         ///< the rate at construction
  bool has_own_lr = false;
  double weight_decay = 0;
  std::shared_ptr<const Rule> rule = {};
  bool may_be_empty = false;
};

/// The groups of an optimizer for FlatOptimizer: the default group first.
struct Setup {
  std::string optimizer = {};  ///< name of the optimizer, for messages
  std::vector<Group> groups = {};
  std::function<bool(const std::string& name)> no_decay = {};
};

/// Calls `update` for parts of `memory`, on libtorch's threads if the memory is large.
void in_parts(const Memory& memory, const std::function<void(const Memory& part)>& update);

/// The value of an option, for messages.
struct OptionValue {
  const char* optimizer;
  const char* option;
  double value;
};

/// Throws: UsageError "<optimizer>'s <option> is <value>, which is not <range>" unless `ok`.
void require_option(bool ok, const OptionValue& given, const char* range);
void require_betas(const char* optimizer, const std::array<double, 2>& betas);
/// Requires a learning rate, a decay or the like to be finite and not negative.
void require_not_negative(const OptionValue& given);

}  // namespace lockstep::optim
