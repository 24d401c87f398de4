// SPDX-License-Identifier: Apache-2.0
// The state that all of a group's connections between hosts share, and the failure of an exchange over them, for any
// transport.
#pragma once

#include <atomic>
#include <string>
#include <utility>

#include "comm/core/failure.h"
#include "comm/network/exchange_watch.h"

namespace lockstep::comm {

struct NetworkState {
  explicit NetworkState(World facts) : world(std::move(facts)), watch(world) {}

  /// Makes every later exchange of the group fail.
  void abort() noexcept;
  /// Implements Network::report_death().
  void report_death(int suspect) noexcept;
  /// Returns true if the launcher has recorded that a rank failed: a rank that dies before it is connected closes no
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
  bool is_over = false;  ///< the exchange has timed out
  std::string why = {};  ///< why the connection was lost or is missing, if known
};

/// Asks all ranks which rank is to blame, and throws its failure. Throws: PeerError, TimeoutError.
[[noreturn]] void throw_failure(NetworkState& state, const FailedExchange& failed);

}  // namespace lockstep::comm
