// SPDX-License-Identifier: Apache-2.0
// One collective, whatever runs it; a Work is a handle on it.
#pragma once

namespace lockstep::comm {

class Operation {
 public:
  Operation() = default;
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// As Work::wait.
  virtual void wait() = 0;
  [[nodiscard]] virtual bool is_done() const noexcept = 0;
};

}  // namespace lockstep::comm
