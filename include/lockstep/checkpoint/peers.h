// SPDX-License-Identifier: Apache-2.0
// How the ranks of a sharded save speak with each other: a few short words through the job's store, so that a save can
// go on in a thread of its own while the training thread uses the process group.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/store/store.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Owned by one thread, but for abandon(). Both verbs: every rank, in the same order.
class CheckpointPeers {
 public:
  virtual ~CheckpointPeers() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int world_size() const = 0;
  /// On rank 0: what each rank said, by rank; empty on the others.
  /// Blocks: on rank 0, until all have spoken. Throws: TimeoutError, PeerError.
  virtual std::vector<std::string> gather(const std::string& mine) = 0;
  /// What rank 0 said.
  /// Blocks: on the others, until rank 0 has spoken. Throws: TimeoutError, PeerError.
  virtual std::string broadcast(const std::string& mine) = 0;
  /// Ends, from another thread, a verb that waits, within a moment, and all later ones that would: with PeerError.
  virtual void abandon() noexcept {}
};

/// Of a process that saves alone.
[[nodiscard]] std::unique_ptr<CheckpointPeers> no_peers();

/// Who takes part, and where they meet.
struct PeersOptions {
  std::string prefix = "lockstep/checkpoint/";  ///< of the keys; another one for each object that lives at a time
  int rank = 0;
  int world_size = 1;
  std::chrono::milliseconds timeout{600'000};
};

/// Through a store. A key is removed once it has been read. Lifetime: the store outlives it.
[[nodiscard]] std::unique_ptr<CheckpointPeers> store_peers(Store& store, const PeersOptions& options);

}  // namespace lockstep

#pragma GCC visibility pop
