// SPDX-License-Identifier: Apache-2.0
// Looks after exchanges that take long: where another rank has reported a failure, they are interrupted. Without it a
// rank could wait for one that has given up and, alive, closes no connection.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "comm/core/failure.h"

namespace lockstep::comm {

/// Watches the exchanges of a group for an alarm in the store. Its thread asks the store only while an exchange has
/// been under way for some time. Thread-safe: yes.
class ExchangeWatch {
 public:
  explicit ExchangeWatch(World world);
  ~ExchangeWatch();
  ExchangeWatch(const ExchangeWatch&) = delete;
  ExchangeWatch& operator=(const ExchangeWatch&) = delete;

  /// While it lives and an alarm was raised, another thread calls `interrupt` again and again.
  class [[nodiscard]] Scope {
   public:
    Scope(ExchangeWatch& watch, std::function<void()> interrupt);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ExchangeWatch& watch_;
    int number_ = 0;
  };

  /// Tells every rank of the group that `suspect` is gone. Only the first alarm counts.
  void raise(int suspect) noexcept;

  /// Returns the suspect of the alarm, once this rank has heard of it.
  [[nodiscard]] std::optional<int> alarm() const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::comm
