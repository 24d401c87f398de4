// SPDX-License-Identifier: Apache-2.0
// Communication between the ranks of a sharded save: a few short messages through the job's store. This lets a save run
// on its own thread while the training thread uses the process group.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/store/store.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Connects the ranks that write a checkpoint. Must be used from one thread, except for abandon(). Every rank calls
/// gather() and broadcast() in the same order.
class CheckpointPeers {
 public:
  virtual ~CheckpointPeers() = default;
  /// Returns this process's rank among the peers, from 0.
  [[nodiscard]] virtual int rank() const = 0;
  /// Returns the number of peers.
  [[nodiscard]] virtual int world_size() const = 0;
  /// On rank 0, returns each rank's message, in rank order; on other ranks, an empty list.
  /// Blocks: on rank 0, until all ranks have called it. Throws: TimeoutError, PeerError.
  virtual std::vector<std::string> gather(const std::string& message) = 0;
  /// Returns rank 0's message.
  /// Blocks: on ranks other than 0, until rank 0 has called it. Throws: TimeoutError, PeerError.
  virtual std::string broadcast(const std::string& message) = 0;
  /// Makes a waiting call, and every later call that would wait, fail with PeerError soon. Any thread may call it.
  virtual void abandon() noexcept {}
};

/// Creates the CheckpointPeers for a process that saves alone.
[[nodiscard]] std::unique_ptr<CheckpointPeers> no_peers();

/// The members of a group of peers, and their keys in the store.
struct PeersOptions {
  std::string prefix = "lockstep/checkpoint/";  ///< prefix of the group's keys; no other group of the job may have it
  int rank = 0;                                 ///< this process's rank
  int world_size = 1;                           ///< the number of processes
  std::chrono::milliseconds timeout{600'000};   ///< limit for every gather() and broadcast()
};

/// Creates CheckpointPeers that use a store. With the same prefix, every rank of the group creates the same number of
/// objects in the same order: the first objects of all ranks belong together, then the second ones, and so on. Each
/// key is removed once it has been read, except for a few short ones per object.
/// Blocks: for a round trip to the store. Lifetime: the store outlives the result. Throws: PeerError, TimeoutError.
[[nodiscard]] std::unique_ptr<CheckpointPeers> store_peers(Store& store, const PeersOptions& options);

}  // namespace lockstep

#pragma GCC visibility pop
