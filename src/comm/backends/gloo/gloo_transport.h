// SPDX-License-Identifier: Apache-2.0
// Ranks that Gloo has connected, as a transport; private to this folder.
#pragma once

#include <ATen/core/ivalue.h>
#include <signal.h>

#include <atomic>
#include <memory>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "comm/backends/gloo/exchange_watch.h"
#include "comm/core/transport.h"

namespace lockstep::comm {

using GlooGroup = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

/// What all connections of a group share.
struct GlooShared {
  explicit GlooShared(World of) : world(std::move(of)), watch(world) {}

  const World world;
  ExchangeWatch watch;
  std::atomic<bool> aborted{false};
};

/// Some ranks of the world, connected with each other.
struct GlooConnection {
  std::shared_ptr<GlooShared> shared;
  GlooGroup group;
  std::vector<int> members;  ///< ranks of the world, in the order of their numbers in `group`
};

[[nodiscard]] std::shared_ptr<Transport> make_gloo_transport(GlooConnection connection);

/// An exchange that failed.
struct FailedExchange {
  const Collective& collective;
  int suspect = 0;
  bool is_over = false;  ///< its time has passed
};

/// Asks all ranks which one is to blame. Throws: PeerError, TimeoutError.
[[noreturn]] void throw_failure(GlooShared& shared, const FailedExchange& failed);

/// Gloo writes to sockets in a way that raises SIGPIPE when a peer has died, which would end this process without a
/// message. This class blocks the signal in this thread and discards a pending one at its end; threads that start
/// meanwhile inherit the block.
class NoSigpipe {
 public:
  NoSigpipe();
  ~NoSigpipe();
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

}  // namespace lockstep::comm
