// SPDX-License-Identifier: Apache-2.0
// GradScaler: scales the loss, so that small gradients of float16 do not vanish. It is PyTorch's, with agreement over
// ranks. Design: docs/design/amp.md.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "lockstep/optim/optimizer.h"
#include "lockstep/tensor/state_dict.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The options of GradScaler. Defaults are those of torch.amp.GradScaler.
struct GradScalerOptions {
  double init_scale = 65536;            ///< the first scale
  double growth_factor = 2.0;           ///< above 1: multiplies the scale after growth_interval good steps
  double backoff_factor = 0.5;          ///< in (0, 1): multiplies the scale after a step with a gradient that is not
                                        ///< finite
  std::int64_t growth_interval = 2000;  ///< at least 1
  bool enabled = true;                  ///< false: scale() and unscale_() do nothing, and step() always steps
  /// Writes the maximum of all ranks' `found_inf` into each of them (float32, one element, on the gradients' device; 1
  /// if a gradient is not finite, else 0). It is needed if the ranks have different gradients
  /// (ZeroOptions::shard_gradients); elsewhere it catches a rank that computed something different.
  std::function<void(const at::Tensor& found_inf)> combine = {};
};

/// Scales the loss, so that float16 gradients do not vanish, and unscales the gradients. If a gradient is inf or NaN,
/// it skips the step and lowers the scale; after many good steps it raises the scale.
///
/// States of each optimizer, until update(): 1. ready; 2. unscale_() was called; 3. step() was called. A call out of
/// this order throws UsageError (PyTorch throws RuntimeError). The scale does not change before update().
///
/// Thread-safe: no.
/// Lifetime:    an optimizer lives until the update() after its step().
/// Example:     scaler.scale(loss).backward();
///              scaler.unscale_(optimizer);                      // only to clip or inspect gradients
///              scaler.step(optimizer, lockstep::clip_factor(optimizer.grad_norm(), 1.0));
///              scaler.update();
class GradScaler final : public Stateful {
 public:
  /// Throws: UsageError for an option out of range.
  explicit GradScaler(GradScalerOptions options = {});

  /// Returns `output` times the scale. The first call places the scale on the device of its argument, where it stays in
  /// the same memory: a recorded call (StepGraph) follows update().
  [[nodiscard]] at::Tensor scale(const at::Tensor& output);

  /// Multiplies the gradients of `optimizer` with 1 / scale and checks them, in one pass.
  ///
  /// Collective: if options.combine is.
  /// Blocks:     if options.combine does; the host does not wait for the device.
  /// Throws:     UsageError if unscale_() or step() was called since the last update(), for float16 gradients, and if
  ///             scale() was never called.
  void unscale_(Optimizer& optimizer);
  /// Does the same with the gradients of this rank's part. With ZeRO's shard_gradients the rest of grad() is undefined
  /// and must not be read.
  void unscale_(Optimizer& optimizer, const std::vector<at::Tensor>& gradients);

  /// Steps, unless a rank has a gradient that is not finite. It first calls unscale_() if that was not called.
  /// `grad_scale` is as in Optimizer::step().
  ///
  /// Collective: if optimizer.step() or unscale_() is.
  /// Blocks:     reads one number from the device.
  /// Returns:    false if the step was skipped.
  /// Throws:     UsageError if step() was called since the last update(), or scale() was never called.
  bool step(Optimizer& optimizer, double grad_scale = 1.0);
  /// Does the same with a factor on the gradients' device, as Optimizer::step_scaled_by() does.
  bool step(Optimizer& optimizer, const at::Tensor& grad_scale);

  /// Sets the scale of the next iteration, on the host and on the device: it falls if any optimizer found a gradient
  /// that is not finite, and grows after growth_interval good iterations, unless float32 could not hold it. `new_scale`
  /// sets it instead. Blocks: only for an optimizer that was unscaled and not stepped: reads one number from the
  /// device. Throws: UsageError if no gradient was checked since the last update(), or scale() was never called.
  void update(std::optional<double> new_scale = std::nullopt);

  /// Returns the scale, or 1 if scaling is off. It reads nothing from the device.
  [[nodiscard]] double get_scale() const { return options_.enabled ? value_ : 1.0; }
  /// Returns false if the scaler does nothing.
  [[nodiscard]] bool is_enabled() const noexcept { return options_.enabled; }

  /// Returns PyTorch's entries: "scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"
  /// (iterations since the scale changed). It is empty if the scaler is not enabled. Save it after update().
  [[nodiscard]] StateDict state_dict() const override;
  /// Loads a state, unless the scaler is not enabled. Throws: DataError naming the entry that is missing, unknown or
  /// invalid; nothing is loaded then.
  void load_state_dict(const StateDict& state) override;

 private:
  /// Returns true if `optimizer` may step now, and notes the step.
  bool may_step(Optimizer& optimizer);
  enum class Stage { kReady, kUnscaled, kStepped };
  struct PerOptimizer {
    Stage stage = Stage::kReady;
    at::Tensor found_inf;
    std::optional<bool> finite = {};  ///< the value of found_inf, once it was read
  };

  void require_scale(const char* call) const;
  /// Returns true if the gradients of all optimizers that were checked are finite.
  bool all_finite();
  void set_scale(double scale);

  GradScalerOptions options_;
  double value_;  ///< the scale, on the host, so that reading it does not wait
  std::int64_t growth_tracker_ = 0;
  at::Tensor scale_;  ///< the same in float32, no dimension; undefined before the first scale()
  std::map<const Optimizer*, PerOptimizer> optimizers_;
};

}  // namespace lockstep

#pragma GCC visibility pop
