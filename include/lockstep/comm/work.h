// SPDX-License-Identifier: Apache-2.0
// Work: the handle of one collective that may still be under way.
#pragma once

#include <memory>

#pragma GCC visibility push(default)

namespace lockstep {
namespace comm {
class Operation;
}  // namespace comm

/// A handle to one collective. It is cheap to copy; copies refer to the same operation. Destroying it does not cancel
/// anything.
/// Lifetime: it may outlive its group; an operation that is unfinished when the group ends fails.
class [[nodiscard]] Work {
 public:
  /// Creates a Work that is already done.
  Work() = default;
  explicit Work(std::shared_ptr<comm::Operation> operation) noexcept;

  /// Waits until the result is complete and no peer still reads this rank's data. It often runs the operation on this
  /// thread. For a GPU tensor that is sent through `nccl`, it makes the current stream wait instead of the thread
  /// (group_check.h).
  ///
  /// Blocks: up to the group's timeout.
  /// Thread-safe: yes; can be called again.
  /// Throws: PeerError (a rank died or failed; names it), TimeoutError (names the late ranks), UsageError (the ranks
  ///         called different collectives).
  void wait();

  /// Returns true if wait() would not block.
  [[nodiscard]] bool is_done() const noexcept;

 private:
  std::shared_ptr<comm::Operation> operation_;
};

}  // namespace lockstep

#pragma GCC visibility pop
