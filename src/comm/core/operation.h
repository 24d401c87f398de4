// SPDX-License-Identifier: Apache-2.0
// The interface of one collective under way; a Work is a handle to it.
#pragma once

namespace lockstep::comm {

class Operation {
 public:
  Operation() = default;
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// Implements Work::wait().
  virtual void wait() = 0;
  [[nodiscard]] virtual bool is_done() const noexcept = 0;
};

}  // namespace lockstep::comm
