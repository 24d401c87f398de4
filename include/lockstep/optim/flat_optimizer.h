// SPDX-License-Identifier: Apache-2.0
// The common base of all optimizers of this folder: groups, state in flat buffers, its entries, and the step.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "lockstep/optim/optimizer.h"
#include "lockstep/optim/parameter_groups.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/state_dict.h"

#pragma GCC visibility push(default)

namespace lockstep {

namespace optim {
struct Setup;  ///< the optimizer's groups, each with its rule (src/optim/rule.h)
}

/// A class whose parameters have names: a torch module, its holder or pointer, or a DistributedDataParallel.
template <class Model>
concept HasNamedParameters = !std::same_as<std::remove_cvref_t<Model>, NamedTensors>;

/// An optimizer that updates each parameter by one rule, with state of the parameter's shape in flat buffers.
///
/// 1. Dense float32 parameters on the CPU take one pass of a kernel over parameter, gradient and state. Each element is
///    updated separately: its bits do not depend on layout, number of threads or instruction set.
/// 2. All others (CUDA, float64, strided ones) are updated together, by libtorch's fused operators on CUDA if it has
///    them, else by its multi-tensor ones. The host does not wait.
/// 3. Parameters that no pattern matches are in the default group, whose options are the optimizer's.
///
/// Throws: UsageError at construction for an option out of range, a parameter that is neither float32 nor float64, a
///         pattern that matches nothing or is not a regular expression, and a parameter that two patterns match.
class FlatOptimizer : public Optimizer {
 public:
  ~FlatOptimizer() override;
  FlatOptimizer(FlatOptimizer&&) noexcept;
  FlatOptimizer& operator=(FlatOptimizer&&) noexcept;

  /// Updates all parameters that have a gradient. Throws: UsageError for a sparse gradient; nothing is updated then.
  void step(double grad_scale = 1.0) override;
  void step_scaled_by(const at::Tensor& grad_scale) override;

  /// Sets the default group's learning rate. A group with its own rate keeps its ratio to the rate of construction: its
  /// rate becomes own * (lr / constructed).
  void set_lr(double lr) override;
  [[nodiscard]] double lr() const noexcept override;
  /// Returns the default group, then the others in the order given.
  [[nodiscard]] std::vector<GroupState> groups() const;

  [[nodiscard]] std::int64_t steps() const noexcept override;
  [[nodiscard]] const NamedTensors& parameters() const noexcept override;
  [[nodiscard]] bool elementwise() const noexcept override;

  void digest_updates(const std::vector<std::int64_t>& begins = {}) override;
  [[nodiscard]] std::optional<UpdateDigest> update_digest() const override;

  /// Returns "<parameter>.<kind>" for each kind of state, "step", and "<parameter>.step" for a parameter that had fewer
  /// steps than the optimizer (it had no gradient). Learning rates belong to the schedule and are not saved.
  [[nodiscard]] StateDict state_dict() const override;
  /// Loads a state. Throws: DataError naming the first entry that is missing, unknown or of another shape or dtype;
  /// nothing is loaded then.
  void load_state_dict(const StateDict& state) override;

 protected:
  FlatOptimizer(NamedTensors parameters, optim::Setup setup);

 private:
  class Impl;
  void note_update() const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

#pragma GCC visibility pop
