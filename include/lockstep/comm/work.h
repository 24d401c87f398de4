// SPDX-License-Identifier: Apache-2.0
// Work: the handle of one collective that may still be under way.
#pragma once

#include <memory>

#pragma GCC visibility push(default)

namespace lockstep {
namespace comm {
class Operation;
}  // namespace comm

/// One collective. A cheap value: copies name the same operation. Dropping it does not cancel anything.
/// Lifetime: may outlive its group; what had not finished then has failed.
class [[nodiscard]] Work {
 public:
  /// Already finished.
  Work() = default;
  explicit Work(std::shared_ptr<comm::Operation> operation) noexcept;

  /// Returns when the result is there and no peer still reads this rank's data. Often runs the operation in this
  /// thread.
  ///
  /// Blocks: up to the group's timeout.
  /// Thread-safe: yes; can be called again.
  /// Throws: PeerError (a rank died or failed; names it), TimeoutError (names the late ranks), UsageError (the ranks
  /// called
  ///         different collectives).
  void wait();

  /// True when wait() would not block.
  [[nodiscard]] bool is_done() const noexcept;

 private:
  std::shared_ptr<comm::Operation> operation_;
};

}  // namespace lockstep

#pragma GCC visibility pop
