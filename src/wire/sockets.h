// SPDX-License-Identifier: Apache-2.0
// The socket functions that connections between ranks need.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "lockstep/base/file_system.h"
#include "wire/hello.h"

namespace lockstep::wire {

/// A numeric address, IPv4 or IPv6, and a port.
struct Endpoint {
  std::string address;
  std::uint16_t port = 0;
};

/// Listens on a free port at one of this host's addresses. Throws: IoError naming the address.
[[nodiscard]] UniqueFd listen_at(const std::string& address);
[[nodiscard]] Endpoint own_end(int fd);
[[nodiscard]] Endpoint other_end(int fd);
/// Returns the route of a connection, as this end sees it.
[[nodiscard]] Route route_of(int fd, End end);

/// Starts connecting, without waiting. If the descriptor is invalid, errno has the reason.
[[nodiscard]] UniqueFd begin_to_connect(const Endpoint& to);
/// Returns 0 if the connection is open; else the reason as an errno.
[[nodiscard]] int connect_problem(int fd);

/// Sets the options of a connection between ranks: small messages are not delayed, and an idle connection ends after
/// `timeout` if the other host has vanished.
void tune(int fd, std::chrono::milliseconds timeout);

/// A descriptor that one thread makes readable to wake another.
class Wakeup {
 public:
  Wakeup();
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  void wake() noexcept;
  /// Makes the descriptor unreadable again.
  void clear() noexcept;

 private:
  UniqueFd fd_;
};

}  // namespace lockstep::wire
