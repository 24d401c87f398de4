// SPDX-License-Identifier: Apache-2.0
// AdamW with its state in flat buffers and one fused pass over each parameter's memory.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/optim/optimizer.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/state_dict.h"

namespace lockstep {

/// Defaults as in torch.optim.AdamW.
struct AdamWOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;
  /// Parameters (by name) for which this is true are not decayed; none by default.
  std::function<bool(const std::string& name)> no_decay = {};
};

/// AdamW with the results of torch.optim.AdamW. Every element is updated by itself: bits depend on no layout.
///
/// Shapes: any dense float32 parameters on the CPU take the fused pass; float64, CUDA and strided ones plain ATen ops.
/// Cost:   28 bytes of memory traffic a parameter.
/// Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019.
/// Example: lockstep::AdamW optimizer{model, {.lr = 6e-4}};
class AdamW : public Optimizer {
 public:
  /// `model`: a torch module, its holder or pointer, or a DistributedDataParallel; the names of parameters come along.
  /// Throws: UsageError for an option out of range or a parameter that is neither float32 nor float64.
  template <class Model>
  requires(!std::is_same_v<std::remove_cvref_t<Model>, NamedTensors>) explicit AdamW(Model& model,
                                                                                     AdamWOptions options = {})
      : AdamW(named_parameters_of(model), std::move(options)) {}
  explicit AdamW(NamedTensors parameters, AdamWOptions options = {});

  void step(double grad_scale = 1.0) override;

  void set_lr(double lr) override;
  [[nodiscard]] double lr() const noexcept override { return options_.lr; }
  [[nodiscard]] std::int64_t steps() const noexcept override { return steps_; }
  [[nodiscard]] const NamedTensors& parameters() const noexcept override { return parameters_; }

  /// "<parameter>.exp_avg", "<parameter>.exp_avg_sq", "step", and "<parameter>.step" where a parameter had fewer steps
  /// than the optimizer (it was without a gradient). The learning rate is the schedule's and not saved.
  [[nodiscard]] StateDict state_dict() const override;
  /// Throws: DataError naming the first entry that is missing, unknown or of another shape or dtype; nothing is loaded
  /// then.
  void load_state_dict(const StateDict& state) override;

 private:
  struct Slot {
    at::Tensor exp_avg;  ///< a view of the flat state, with the parameter's strides
    at::Tensor exp_avg_sq;
    std::int64_t steps = 0;
    bool decay = true;
  };

  void update(std::size_t index, double grad_scale);

  NamedTensors parameters_;
  AdamWOptions options_;
  std::vector<Slot> slots_;
  std::int64_t steps_ = 0;
};

}  // namespace lockstep
