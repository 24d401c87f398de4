// SPDX-License-Identifier: Apache-2.0
// Result<T>: a value or the reason why there is none, for code that must not throw (threads, destructors, wire
// parsing).
#pragma once

#include <string>
#include <utility>
#include <variant>

#pragma GCC visibility push(default)

namespace lockstep {

/// The reason why a Result has no value.
struct Failure {
  std::string message;  ///< the problem, human-readable
};

/// A value, or the reason why there is none, for places that must not throw.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}            // NOLINT(google-explicit-constructor): `return value;`
  Result(Failure failure) : state_(std::move(failure)) {}  // NOLINT(google-explicit-constructor): `return Failure{..};`

  /// Returns true if there is a value.
  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  /// Returns the value. Call it only if ok() is true.
  [[nodiscard]] T& value() & { return std::get<0>(state_); }
  /// Returns the value. Call it only if ok() is true.
  [[nodiscard]] const T& value() const& { return std::get<0>(state_); }
  /// Moves the value out. Call it only if ok() is true.
  [[nodiscard]] T&& value() && { return std::get<0>(std::move(state_)); }
  [[nodiscard]] T& operator*() & { return value(); }
  [[nodiscard]] const T& operator*() const& { return value(); }
  [[nodiscard]] T* operator->() { return &value(); }
  [[nodiscard]] const T* operator->() const { return &value(); }

  /// Returns the reason. Call it only if ok() is false.
  [[nodiscard]] const std::string& error() const { return std::get<1>(state_).message; }

 private:
  std::variant<T, Failure> state_;
};

}  // namespace lockstep

#pragma GCC visibility pop
