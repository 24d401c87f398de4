// SPDX-License-Identifier: Apache-2.0
// Carries the bytes of one group, blocking, one collective at a time. The operation queue makes it asynchronous.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "comm/core/collective.h"
#include "comm/core/failure.h"

namespace lockstep::comm {

/// Runs operations one after another.
class Runner {
 public:
  virtual ~Runner() = default;

  /// Runs one operation to completion, or throws. Calls never overlap.
  /// Throws: PeerError, TimeoutError, UsageError (the ranks called different collectives).
  virtual void run(const Collective& collective) = 0;

  /// Throws the known failure of the group, if there is one. Blocks: no. Thread-safe: yes.
  virtual void check(const Collective& /*under_way*/) {}

  /// Makes a run() in progress on any rank end soon, with this rank's `reason`. Thread-safe: yes.
  virtual void abort(const std::string& reason) noexcept = 0;

  /// Announces to the peers that this rank is leaving normally. Only the destructor may be called afterwards.
  virtual void leave() noexcept = 0;
};

class Backend : public Runner {
 public:
  [[nodiscard]] virtual std::string name() const = 0;

  /// Opens a channel that carries messages to `peer`, or from `peer`, in order. The channel may outlive the backend.
  /// Call this function once for each peer and direction.
  /// Thread-safe: yes.
  [[nodiscard]] virtual std::unique_ptr<Runner> open_channel(int peer, bool sending) = 0;

  [[nodiscard]] virtual at::Tensor allocate_bucket(std::int64_t numel, c10::ScalarType dtype) = 0;

  /// Compares the descriptors of all ranks, then runs the collective according to its kind.
  void run(const Collective& collective) final;

 protected:
  /// Waits until all ranks have called it, and compares the descriptors. Reductions that copy first may compare them
  /// later.
  virtual void meet(const Collective& collective) = 0;
  /// Runs all_reduce, reduce and reduce_scatter, and compares the descriptors.
  virtual void reduce(const Collective& collective) = 0;
  /// Runs collectives that only move bytes (moves.h), and compares the descriptors.
  virtual void move(const Collective& collective) = 0;
  /// Called after a collective, to record this rank's progress for other ranks.
  virtual void note_finished(std::uint64_t /*sequence*/) noexcept {}
};

}  // namespace lockstep::comm
