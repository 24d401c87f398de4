// SPDX-License-Identifier: Apache-2.0
// A moving average of a model's weights and buffers, for evaluations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <utility>

#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/state_dict.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// How fast the average follows the model.
struct EMAOptions {
  double decay = 0.9999;   ///< fraction of the old average that an update keeps
  double warmups = 1000;   ///< updates until the decay reaches 63 % of its final value; 0: no warm-up
  std::int64_t start = 0;  ///< number of initial calls to update() that do nothing
};

/// An exponential moving average over all parameters and buffers of a model. The n-th update uses d = decay * (1 -
/// exp(-n / warmups)), and average = d * average + (1 - d) * value for each entry of a floating-point type; other
/// entries (num_batches_tracked) are copied.
///
/// 1. The average begins as a copy of the model.
/// 2. The average has its own memory, in the model's strides. Float32 on the CPU takes one pass over memory, and each
///    element's bits depend only on its own values.
/// 3. Ranks with equal models have equal averages; no rank communicates.
///
/// Must be used from the training thread. Lifetime: the model's tensors may move in memory, but must stay the same
/// objects.
/// Cost:    12 bytes of memory traffic for each element.
/// Source:  ModelEMA of RT-DETR, D-FINE and DEIM. There, changing the decay later has no effect; here it does.
/// Example: lockstep::EMA ema{model, {.decay = 0.999}};  after each optimizer.step(): ema.update();
class EMA : public Stateful {
 public:
  template <class Model>
  requires(!std::is_same_v<std::remove_cv_t<Model>, NamedTensors>) explicit EMA(Model& model, EMAOptions options = {})
      : EMA(named_entries_of(model), options) {}
  /// Tied weights may be listed under all their names or only the first. Throws: UsageError unless 0 <= decay < 1,
  /// warmups >= 0 and start >= 0.
  explicit EMA(NamedTensors model, EMAOptions options = {});

  /// Adds the model's current values to the average; the first options.start calls do nothing. Throws: UsageError while
  /// the average is swapped in.
  void update();

  /// Sets the decay of later updates. Throws: UsageError unless 0 <= decay < 1.
  void set_decay(double decay);
  /// Returns the decay that the warm-up approaches.
  [[nodiscard]] double decay() const noexcept { return options_.decay; }
  /// Returns the number of updates so far.
  [[nodiscard]] std::int64_t updates() const noexcept { return std::max<std::int64_t>(0, updates_); }

  /// While it is alive, the model has the average's values and the average has the model's. Its destructor restores
  /// both, bit for bit. The tensors keep their memory. Lifetime: the EMA outlives it and must not be moved until then.
  class Swapped {
   public:
    ~Swapped();
    Swapped(Swapped&& other) noexcept : ema_(std::exchange(other.ema_, nullptr)) {}
    Swapped(const Swapped&) = delete;
    Swapped& operator=(const Swapped&) = delete;

   private:
    friend class EMA;
    explicit Swapped(EMA& ema) : ema_(&ema) {}
    EMA* ema_;
  };

  /// Swaps the average into the model.
  /// Throws: UsageError if it is already swapped in; GPU memory allocation errors, with nothing swapped.
  /// Example: const lockstep::EMA::Swapped averaged = ema.swap_in();  evaluate(model);
  [[nodiscard]] Swapped swap_in();

  /// Returns the average under the model's names, and the number of updates. Throws: UsageError while it is swapped in.
  [[nodiscard]] StateDict state_dict() const override;
  /// Loads an average, but not its decay. Throws: the DataErrors of load_model_state_dict(), with nothing loaded.
  void load_state_dict(const StateDict& state) override;

 private:
  void require_own_values(const char* what) const;
  void swap_all();

  NamedTensors model_;
  NamedTensors averages_;
  NamedTensors all_names_;  ///< the averages under all names, including names of tied weights
  EMAOptions options_;
  std::int64_t updates_ = 0;
  bool swapped_ = false;
  std::map<std::string, at::Tensor> scratch_;  ///< memory for swapping back, by device, while swapped in
};

/// The parts of an EMA's state_dict(): a model's state, and the number of its updates.
struct EMAState {
  StateDict model;           ///< the average, under the model's names
  std::int64_t updates = 0;  ///< number of updates of the average
};

/// Splits the state of an EMA.
/// Example: load_model_state_dict(net, ema_state_of(checkpoint.state("ema")).model);
/// Throws: DataError if `state` is not the state of an EMA.
[[nodiscard]] EMAState ema_state_of(StateDict state);

}  // namespace lockstep

#pragma GCC visibility pop
