// SPDX-License-Identifier: Apache-2.0
// Connects to one rank of a circle. The higher rank calls, the lower rank waits for the call; then the connection
// opens. If the other end is not the expected rank, the link starts again.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/base/clock.h"
#include "wire/connection.h"
#include "wire/hub.h"

namespace lockstep::wire {

/// Returns how long a connection may take to open: short enough that another attempt fits into the job's timeout.
[[nodiscard]] std::chrono::milliseconds opening_limit(std::chrono::milliseconds timeout);

class Link {
 public:
  Link(Hub& hub, std::uint64_t circle, int peer);

  /// Takes one step towards an open connection. It does not wait for the peer, and waits only briefly for the store.
  /// Returns true if anything has changed.
  bool connect();
  [[nodiscard]] bool is_open() const noexcept { return is_open_; }
  /// Returns the connection; is_open() must be true.
  [[nodiscard]] Connection& connection() { return *connection_; }

  [[nodiscard]] int peer() const noexcept { return peer_; }
  /// Returns the reason why the link is not open yet; empty if it is open.
  [[nodiscard]] std::string problem() const;
  /// Returns the descriptor to wait on; -1: wait only on the listener.
  [[nodiscard]] int fd() const noexcept;
  [[nodiscard]] short events() const noexcept;
  /// Returns when to call connect() even if the descriptors are not ready.
  [[nodiscard]] std::optional<TimePoint> due() const noexcept { return due_; }

 private:
  [[nodiscard]] bool calls() const;
  bool call();
  bool await_call();
  bool await_connect();
  bool open();
  void start_anew(const std::string& why);

  Hub& hub_;
  const std::uint64_t circle_;
  const int peer_;
  std::optional<Hub::Place> place_;
  UniqueFd calling_;  // the socket of a call that is being connected
  std::unique_ptr<Connection> connection_;
  bool is_open_ = false;
  std::string why_;  // the reason why the last attempt failed; empty if none has failed
  std::optional<TimePoint> due_;
};

}  // namespace lockstep::wire
