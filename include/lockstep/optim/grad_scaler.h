// SPDX-License-Identifier: Apache-2.0
// GradScaler: scales the loss, so that small float16 gradients do not vanish. It works like PyTorch's, and the ranks
// agree on the scale. Design: docs/design/amp.md.
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

/// The options of GradScaler, with the defaults of torch.amp.GradScaler.
struct GradScalerOptions {
  double init_scale = 65536;    ///< the first scale
  double growth_factor = 2.0;   ///< factor applied to the scale after growth_interval good steps; above 1
  double backoff_factor = 0.5;  ///< factor applied to the scale after a step with a non-finite gradient; in (0, 1)
  std::int64_t growth_interval = 2000;  ///< good steps until the scale grows; at least 1
  bool enabled = true;                  ///< false: scale() and unscale_() do nothing, and step() always steps
  /// Sets `found_inf` to its maximum over all ranks (float32, one element, on the gradients' device; 1 if a gradient is
  /// not finite, else 0). It is needed if the ranks have different gradients (ZeroOptions::shard_gradients). If all
  /// ranks have equal gradients, it keeps them in sync even when one rank computes something different.
  std::function<void(const at::Tensor& found_inf)> combine = {};
};

/// Scales the loss, so that float16 gradients do not vanish, and unscales the gradients. If a gradient is inf or NaN,
/// it skips the step and lowers the scale. After many good steps it raises the scale.
///
/// Each optimizer is in one of three states until update(): 1. ready; 2. unscale_() was called; 3. step() was called. A
/// call out of order throws UsageError (PyTorch throws RuntimeError). The scale changes only in update().
///
/// Thread-safe: no.
/// Lifetime:    an optimizer must outlive the update() after its step().
/// Example:     scaler.scale(loss).backward();
///              scaler.unscale_(optimizer);                      // only to clip or inspect gradients
///              scaler.step(optimizer, lockstep::clip_factor(optimizer.grad_norm(), 1.0));
///              scaler.update();
class GradScaler final : public Stateful {
 public:
  /// Throws: UsageError for an option out of range.
  explicit GradScaler(GradScalerOptions options = {});

  /// Returns `output` times the scale. The first call places the scale on the device of its argument. The scale stays
  /// in the same memory, so that a recorded call (StepGraph) uses the value that update() sets.
  [[nodiscard]] at::Tensor scale(const at::Tensor& output);

  /// Multiplies the gradients of `optimizer` by 1 / scale and checks them, in one pass.
  ///
  /// Collective: if options.combine is.
  /// Blocks:     if options.combine does; the host does not wait for the device.
  /// Throws:     UsageError if unscale_() or step() was called since the last update(), if gradients are float16, and
  ///             if scale() was never called.
  void unscale_(Optimizer& optimizer);
  /// The same with `gradients`, the gradients of this rank's part. With ZeRO's shard_gradients the rest of grad() is
  /// undefined and must not be read.
  void unscale_(Optimizer& optimizer, const std::vector<at::Tensor>& gradients);

  /// Calls optimizer.step(grad_scale), unless a rank has a non-finite gradient. It first calls unscale_() if the caller
  /// has not.
  ///
  /// Collective: if optimizer.step() or unscale_() is.
  /// Blocks:     reads one number from the device.
  /// Returns:    false if the step was skipped.
  /// Throws:     UsageError if step() was called since the last update(), or scale() was never called.
  bool step(Optimizer& optimizer, double grad_scale = 1.0);
  /// The same with Optimizer::step_scaled_by(grad_scale), whose factor is on the gradients' device.
  bool step(Optimizer& optimizer, const at::Tensor& grad_scale);

  /// Sets the scale of the next iteration, on the host and on the device. It falls if any optimizer found a non-finite
  /// gradient, and grows after growth_interval good iterations, unless float32 could not hold it. `new_scale`, if
  /// given, becomes the scale instead. Blocks: reads one number from the device for an optimizer that was unscaled but
  /// not stepped. Throws: UsageError if no gradient was checked since the last update(), or scale() was never called.
  void update(std::optional<double> new_scale = std::nullopt);

  /// Returns the scale, or 1 if scaling is off. It reads nothing from the device.
  [[nodiscard]] double get_scale() const { return options_.enabled ? value_ : 1.0; }
  /// Returns false if the scaler does nothing.
  [[nodiscard]] bool is_enabled() const noexcept { return options_.enabled; }

  /// Returns PyTorch's entries: "scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"
  /// (iterations since the scale changed). The result is empty if the scaler is off. Save it after update().
  [[nodiscard]] StateDict state_dict() const override;
  /// Loads a state if the scaler is enabled. Throws: DataError naming the entry that is missing, unknown or invalid,
  /// with nothing loaded.
  void load_state_dict(const StateDict& state) override;

 private:
  /// Returns true if `optimizer` may step now, and records the step.
  bool may_step(Optimizer& optimizer);
  enum class Stage { kReady, kUnscaled, kStepped };
  struct PerOptimizer {
    Stage stage = Stage::kReady;
    at::Tensor found_inf;
    std::optional<bool> finite = {};  ///< the value of found_inf, once it has been read
  };

  void require_scale(const char* call) const;
  /// Returns true if the gradients of all optimizers that were checked are finite.
  bool all_finite();
  void set_scale(double scale);

  GradScalerOptions options_;
  double value_;  ///< the scale on the host, which can be read without waiting
  std::int64_t growth_tracker_ = 0;
  at::Tensor scale_;  ///< the scale on the device: a float32 scalar; undefined before the first scale()
  std::map<const Optimizer*, PerOptimizer> optimizers_;
};

}  // namespace lockstep

#pragma GCC visibility pop
