// SPDX-License-Identifier: Apache-2.0
// The way to one rank of a circle: it calls the rank or waits for its call, opens the connection, and again where what
// was there is not the rank. The higher rank calls.
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

/// How long a connection may take to open: so much less than the job's limit that another one still can.
[[nodiscard]] std::chrono::milliseconds opening_limit(std::chrono::milliseconds timeout);

class Link {
 public:
  Link(Hub& hub, std::uint64_t circle, int peer);

  /// One step towards an open connection, without waiting for the peer but for a moment in the store. Returns true
  /// where anything has changed.
  bool connect();
  [[nodiscard]] bool is_open() const noexcept { return is_open_; }
  /// The connection, once it is open.
  [[nodiscard]] Connection& connection() { return *connection_; }

  [[nodiscard]] int peer() const noexcept { return peer_; }
  /// Returns the reason why the link is not open yet; empty if it is open.
  [[nodiscard]] std::string problem() const;
  /// -1: nothing to wait for but the listener.
  [[nodiscard]] int fd() const noexcept;
  [[nodiscard]] short events() const noexcept;
  /// When connect() is due even if nothing happens.
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
  UniqueFd calling_;  // connects
  std::unique_ptr<Connection> connection_;
  bool is_open_ = false;
  std::string why_;  // the last attempt failed; empty: none has
  std::optional<TimePoint> due_;
};

}  // namespace lockstep::wire
