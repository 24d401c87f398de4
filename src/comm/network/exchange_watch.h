// SPDX-License-Identifier: Apache-2.0
// Interrupts long exchanges if another rank has reported a failure. Without it a rank could wait for a rank that has
// given up but is still alive, with its connections open.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "comm/core/failure.h"

namespace lockstep::comm {

/// Interrupts a group's exchanges after an alarm in the store, or when their time has run out (end_of()). One thread
/// polls the store, but only while an exchange has been under way for some time; another thread checks the clock, so
/// that a hanging store delays nothing. Thread-safe: yes.
class ExchangeWatch {
 public:
  explicit ExchangeWatch(World world);
  ~ExchangeWatch();
  ExchangeWatch(const ExchangeWatch&) = delete;
  ExchangeWatch& operator=(const ExchangeWatch&) = delete;

  /// An exchange of `collective`; `is_over` becomes true when its time has passed.
  struct Exchange {
    const Collective& collective;
    std::function<void()> interrupt;
    std::atomic<bool>& is_over;
  };

  /// Registers an exchange for its lifetime. Once an alarm has been raised or the exchange's time has passed, another
  /// thread interrupts the exchange repeatedly.
  class [[nodiscard]] Scope {
   public:
    Scope(ExchangeWatch& watch, Exchange exchange);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ExchangeWatch& watch_;
    int number_ = 0;
  };

  /// Reports to every rank of the group that `suspect` is gone. Only the first alarm counts.
  void raise(int suspect) noexcept;

  /// Returns the suspect of the alarm, once this rank has heard of it.
  [[nodiscard]] std::optional<int> alarm() const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::comm
