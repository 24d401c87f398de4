// SPDX-License-Identifier: Apache-2.0
// A moving average of a model's weights and buffers, which evaluations are made with.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <utility>

#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/state_dict.h"

#pragma GCC visibility push(default)

namespace lockstep {

struct EMAOptions {
  double decay = 0.9999;
  double warmups = 1000;  ///< updates until the decay has reached 63 % of its value; 0: it has all of it at once
};

/// An exponential moving average over all parameters and buffers of a model. The n-th update takes
/// d = decay * (1 - exp(-n / warmups)), and average = d * average + (1 - d) * value for each entry of a floating type;
/// others (num_batches_tracked) are copied.
///
/// 1. It begins as a copy of the model.
/// 2. The average lies in memory of its own, in the model's strides. Float32 on the CPU takes one pass, and each
///    element's bits depend on its own values only.
/// 3. Its bits are the same on ranks whose models are: no rank asks another.
///
/// Owned by the training thread. Lifetime: the model's tensors may move to other memory, but stay the same objects.
/// Cost:    12 bytes of memory traffic an element.
/// Source:  ModelEMA of RT-DETR, D-FINE and DEIM. There a decay that is changed later takes no effect; here it does.
/// Example: lockstep::EMA ema{model, {.decay = 0.999}};  after each optimizer.step(): ema.update();
class EMA : public Stateful {
 public:
  template <class Model>
  requires(!std::is_same_v<std::remove_cv_t<Model>, NamedTensors>) explicit EMA(Model& model, EMAOptions options = {})
      : EMA(entries_of(model), options) {}
  /// Throws: UsageError unless 0 <= decay < 1 and warmups >= 0.
  explicit EMA(NamedTensors model, EMAOptions options = {});

  /// Throws: UsageError while the average is swapped in.
  void update();

  /// From the next update on. Throws: UsageError unless 0 <= decay < 1.
  void set_decay(double decay);
  [[nodiscard]] double decay() const noexcept { return options_.decay; }
  [[nodiscard]] std::int64_t updates() const noexcept { return updates_; }

  /// While it lives, the model has the average's values and the average the model's; then both have their own again,
  /// bit for bit. The tensors stay where they are. Lifetime: the EMA outlives it and is not moved meanwhile.
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

  /// Throws: UsageError where it is swapped in already; what the allocation of memory on a GPU throws, and nothing is
  ///         swapped then.
  /// Example: const lockstep::EMA::Swapped averaged = ema.swap_in();  evaluate(model);
  [[nodiscard]] Swapped swap_in();

  /// The average under the model's names, and the number of updates. Throws: UsageError while it is swapped in.
  [[nodiscard]] StateDict state_dict() const override;
  /// The decay is not part of it. Throws: DataError as load_model_state_dict(); nothing is loaded then.
  void load_state_dict(const StateDict& state) override;

 private:
  template <class Model>
  static NamedTensors entries_of(Model& model) {
    NamedTensors entries = named_parameters_of(model);
    for (auto& buffer : named_buffers_of(model)) entries.push_back(std::move(buffer));
    return entries;
  }
  void require_own_values(const char* what) const;
  void swap_all();

  NamedTensors model_;
  NamedTensors averages_;
  EMAOptions options_;
  std::int64_t updates_ = 0;
  bool swapped_ = false;
  std::map<std::string, at::Tensor> scratch_;  ///< by device, while swapped in: swapping back allocates nothing
};

/// What an EMA's state_dict() is made of: a model's, and how many updates it has had.
struct EMAState {
  StateDict model;
  std::int64_t updates = 0;
};

/// Example: load_model_state_dict(net, ema_state_of(checkpoint.state("ema")).model);
/// Throws: DataError where `state` is not of an EMA.
[[nodiscard]] EMAState ema_state_of(StateDict state);

}  // namespace lockstep

#pragma GCC visibility pop
