// SPDX-License-Identifier: Apache-2.0
// What all connections of a group between hosts share, and how an exchange over them fails, whatever carries the bytes.
#pragma once

#include <atomic>
#include <string>
#include <utility>

#include "comm/core/failure.h"
#include "comm/network/exchange_watch.h"

namespace lockstep::comm {

struct NetworkState {
  explicit NetworkState(World of) : world(std::move(of)), watch(world) {}

  /// Makes every later exchange of the group fail.
  void abort() noexcept;
  /// As Network has it.
  void report_death(int suspect) noexcept;
  /// Returns true where the launcher has recorded that a rank failed: one that dies before it is connected closes no
  /// connection.
  [[nodiscard]] bool has_failure() const noexcept;

  const World world;
  ExchangeWatch watch;
  std::atomic<bool> aborted{false};
};

/// An exchange that failed.
struct FailedExchange {
  const Collective& collective;
  int suspect = 0;
  bool is_over = false;  ///< its time has passed
  std::string why = {};  ///< its connection was lost, or is not there, where that is known
};

/// Asks all ranks which one is to blame. Throws: PeerError, TimeoutError.
[[noreturn]] void throw_failure(NetworkState& state, const FailedExchange& failed);

}  // namespace lockstep::comm
