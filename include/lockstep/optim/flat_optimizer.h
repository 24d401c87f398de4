// SPDX-License-Identifier: Apache-2.0
// The common base of all optimizers in this folder: parameter groups, state in flat buffers, its entries, and the step.
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

/// A class with named parameters: a torch module, its holder or pointer, or a DistributedDataParallel.
template <class Model>
concept HasNamedParameters = !std::same_as<std::remove_cvref_t<Model>, NamedTensors>;

/// An optimizer that applies one rule to each parameter and keeps state of the parameter's shape in flat buffers.
///
/// 1. For a dense float32 parameter on the CPU, one kernel passes once over parameter, gradient and state. Each element
///    is updated separately: its bits do not depend on layout, number of threads or instruction set.
/// 2. All other parameters (on CUDA, float64, strided) are updated together by libtorch: on CUDA by its fused operators
///    if it has them, else by its multi-tensor operators. The host does not wait.
/// 3. Parameters that no pattern matches are in the default group, whose options are the optimizer's.
///
/// Throws: UsageError at construction for an option out of range, a parameter that is neither float32 nor float64, a
///         pattern that matches nothing or is not a regular expression, and a parameter that two patterns match.
class FlatOptimizer : public Optimizer {
 public:
  ~FlatOptimizer() override;
  FlatOptimizer(FlatOptimizer&&) noexcept;
  FlatOptimizer& operator=(FlatOptimizer&&) noexcept;

  /// Updates all parameters that have a gradient. Throws: UsageError for a sparse gradient, with nothing updated.
  void step(double grad_scale = 1.0) override;
  void step_scaled_by(const at::Tensor& grad_scale) override;

  /// Sets the default group's learning rate. A group with its own rate keeps its ratio to the default group: its rate
  /// becomes own * (lr / rate at construction).
  void set_lr(double lr) override;
  [[nodiscard]] double lr() const noexcept override;
  /// Returns the default group, then the other groups in the order of the options.
  [[nodiscard]] std::vector<GroupState> groups() const;

  [[nodiscard]] std::int64_t steps() const noexcept override;
  [[nodiscard]] const NamedTensors& parameters() const noexcept override;
  [[nodiscard]] bool elementwise() const noexcept override;

  void digest_updates(const std::vector<std::int64_t>& begins = {}) override;
  [[nodiscard]] std::optional<UpdateDigest> update_digest() const override;

  /// Returns "<parameter>.<kind>" for each kind of state, "step", and "<parameter>.step" for a parameter that had fewer
  /// steps than the optimizer because it had no gradient. Learning rates belong to the schedule and are not saved.
  [[nodiscard]] StateDict state_dict() const override;
  /// Loads a state. Throws: DataError naming the first entry that is missing, unknown or of a different shape or dtype,
  /// with nothing loaded.
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
