// SPDX-License-Identifier: Apache-2.0
// What carries the bytes of one group: blocking, one collective at a time. The queue above it makes it asynchronous.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "comm/core/collective.h"
#include "comm/core/failure.h"

namespace lockstep::comm {

/// Runs what it is given, one after the other.
class Runner {
 public:
  virtual ~Runner() = default;

  /// Runs one operation to its end or throws. Never called twice at the same time.
  /// Throws: PeerError, TimeoutError, UsageError (the ranks called different collectives).
  virtual void run(const Collective& collective) = 0;

  /// Throws what the group is known to have failed with, if anything. Blocks: no. Thread-safe: yes.
  virtual void check(const Collective& /*under_way*/) {}

  /// Makes a run() under way on any rank end soon, with `reason` of this rank. Thread-safe: yes.
  virtual void abort(const std::string& reason) noexcept = 0;

  /// Tells the peers that this rank goes in order. Nothing is called after it but the destructor.
  virtual void leave() noexcept = 0;
};

class Backend : public Runner {
 public:
  [[nodiscard]] virtual std::string name() const = 0;

  /// What carries messages to `peer`, or from it, in order. It outlives the backend. Once for each peer and direction.
  /// Thread-safe: yes.
  [[nodiscard]] virtual std::unique_ptr<Runner> open_channel(int peer, bool sending) = 0;

  [[nodiscard]] virtual at::Tensor allocate_bucket(std::int64_t numel, c10::ScalarType dtype) = 0;

  /// Compares the descriptors of all ranks, then does what the collective's kind asks for.
  void run(const Collective& collective) final;

 protected:
  /// Compares; returns when all ranks have come here. Reductions that copy first may compare by themselves.
  virtual void meet(const Collective& collective) = 0;
  /// all_reduce, reduce, reduce_scatter. Compares too.
  virtual void reduce(const Collective& collective) = 0;
  /// What only moves bytes (moves.h). Compares too.
  virtual void move(const Collective& collective) = 0;
  /// After the collective. For those who ask how far this rank is.
  virtual void note_finished(std::uint64_t /*sequence*/) noexcept {}
};

}  // namespace lockstep::comm
