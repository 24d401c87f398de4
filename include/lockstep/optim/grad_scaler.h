// SPDX-License-Identifier: Apache-2.0
// GradScaler: keeps the small gradients of float16 from vanishing, by scaling the loss. PyTorch's, with a way to agree
// over ranks. Design: docs/design/amp.md.
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

/// Defaults as in torch.amp.GradScaler.
struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2.0;           ///< above 1: what the scale is multiplied with after growth_interval good steps
  double backoff_factor = 0.5;          ///< in (0, 1): and at a step with a gradient that is not finite
  std::int64_t growth_interval = 2000;  ///< at least 1
  bool enabled = true;                  ///< false: scale() and unscale_() do nothing, step() steps
  /// Combines over the ranks whether a gradient is not finite: the maximum of each rank's `found_inf` (float32, one
  /// element, on the gradients' device: 0, or 1 where one is not) into all of them. Needed where the ranks do not have
  /// the same gradients (ZeroOptions::shard_gradients); elsewhere it catches a rank that computed something else.
  std::function<void(const at::Tensor& found_inf)> combine = {};
};

/// Scales the loss, so that float16 gradients do not vanish; unscales the gradients; leaves a step out where one of
/// them is inf or NaN, and lowers the scale then; raises it after many steps without.
///
/// States of each optimizer, until update(): 1. ready; 2. unscale_() was called; 3. step() was called. A call out of
/// this order is a UsageError, as it is a RuntimeError in PyTorch. The scale does not change before update().
///
/// Thread-safe: no.
/// Lifetime:    an optimizer lives until the update() after its step().
/// Example:     scaler.scale(loss).backward();
///              scaler.unscale_(optimizer);                      // where gradients are clipped or looked at
///              scaler.step(optimizer, lockstep::clip_factor(optimizer.grad_norm(), 1.0));
///              scaler.update();
class GradScaler final : public Stateful {
 public:
  /// Throws: UsageError for an option out of range.
  explicit GradScaler(GradScalerOptions options = {});

  /// `output` times the scale, which comes to life on the device of the first one.
  [[nodiscard]] at::Tensor scale(const at::Tensor& output);

  /// Multiplies the gradients of `optimizer` with 1 / scale and checks them, in one pass.
  ///
  /// Collective: as options.combine.
  /// Blocks:     as options.combine; the host does not wait for the device.
  /// Throws:     UsageError where it was called since the last update(), or step() was, for float16 gradients, and
  ///             where scale() was never called.
  void unscale_(Optimizer& optimizer);
  /// The same with the gradients that this rank updates with, where they are not whole: with ZeRO's shard_gradients
  /// what grad() holds outside of this rank's part is not defined, and must not be looked at.
  void unscale_(Optimizer& optimizer, const std::vector<at::Tensor>& gradients);

  /// Steps, unless a gradient is not finite on any rank. Unscales before where unscale_() was not called. `grad_scale`:
  /// as of Optimizer::step().
  ///
  /// Collective: as optimizer.step(), and unscale_().
  /// Blocks:     reads one number of the device.
  /// Returns:    false where the step was left out.
  /// Throws:     UsageError where it was called since the last update(), or scale() was never called.
  bool step(Optimizer& optimizer, double grad_scale = 1.0);

  /// The scale of the next iteration: lower where any optimizer found a gradient that is not finite, higher after
  /// growth_interval iterations without, unless float32 could not hold it. `new_scale` sets it instead.
  /// Throws: UsageError where no gradient was checked since the last update(), or scale() was never called.
  void update(std::optional<double> new_scale = std::nullopt);

  /// 1 where it is not enabled. Blocks: reads one number of the device.
  [[nodiscard]] double get_scale() const;
  [[nodiscard]] double get_growth_factor() const noexcept { return options_.growth_factor; }
  [[nodiscard]] double get_backoff_factor() const noexcept { return options_.backoff_factor; }
  [[nodiscard]] std::int64_t get_growth_interval() const noexcept { return options_.growth_interval; }
  /// Throws: UsageError for one out of range.
  void set_growth_factor(double factor);
  void set_backoff_factor(double factor);
  void set_growth_interval(std::int64_t interval);
  [[nodiscard]] bool is_enabled() const noexcept { return options_.enabled; }

  /// PyTorch's: "scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker" (iterations since the
  /// scale changed). Empty where it is not enabled. To be saved after update().
  [[nodiscard]] StateDict state_dict() const override;
  /// Does nothing where it is not enabled. Throws: DataError naming the entry that is missing, unknown or cannot be;
  /// nothing is loaded then.
  void load_state_dict(const StateDict& state) override;

 private:
  enum class Stage { kReady, kUnscaled, kStepped };
  struct PerOptimizer {
    Stage stage = Stage::kReady;
    at::Tensor found_inf;
  };

  void require_scale(const char* call) const;
  [[nodiscard]] std::int64_t growth_tracker() const;

  GradScalerOptions options_;
  std::int64_t init_growth_tracker_ = 0;
  at::Tensor scale_;           ///< float32, no dimension; undefined before the first scale()
  at::Tensor growth_tracker_;  ///< int32, with it
  std::map<const Optimizer*, PerOptimizer> optimizers_;
};

}  // namespace lockstep

#pragma GCC visibility pop
