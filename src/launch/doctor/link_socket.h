// SPDX-License-Identifier: Apache-2.0
// A TCP connection between two hosts of a job, on which `lockstep doctor` measures. Whoever does not show the
// listener's password, which the store gives to the ranks alone, is turned away, and keeps no host waiting meanwhile.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "lockstep/base/clock.h"
#include "lockstep/base/file_system.h"

namespace lockstep::launch {

struct LinkAddress {
  std::string address;
  std::uint16_t port = 0;
  std::string password;  ///< 64 letters
};

/// What measure_link() finds.
struct LinkFigures {
  double round_trip_us = -1;
  double bytes_per_s = -1;  ///< in the slower direction
};

/// Where a host waits for the others.
class LinkListener {
 public:
  /// Throws: IoError where it cannot listen at `address`.
  explicit LinkListener(const std::string& address);
  [[nodiscard]] const LinkAddress& address() const noexcept { return address_; }

  /// Returns the connection of host `from`; an invalid one where it has not come in time. Those of others are kept.
  [[nodiscard]] UniqueFd accept_from(int from, std::chrono::milliseconds patience);

 private:
  /// A connection that has not shown the password yet.
  struct Guest {
    UniqueFd fd;
    std::string greeting;  ///< as far as it has come
    TimePoint end;         ///< when it is turned away
  };

  void take_guests();
  /// Returns false where the guest's connection is of no more use here.
  [[nodiscard]] bool hear(Guest& guest);
  /// Blocks until something may have come, or `end`.
  void listen_until(TimePoint end);

  UniqueFd fd_;
  LinkAddress address_;
  std::deque<Guest> guests_;  ///< oldest first
  std::map<int, UniqueFd> waiting_;
};

/// Connects as host `own`. Throws: IoError with the system's words.
[[nodiscard]] UniqueFd connect_link(const LinkAddress& to, int own);

/// Measures for about a second; the other side is in serve_link(). Throws: IoError.
[[nodiscard]] LinkFigures measure_link(int fd);

/// Answers until the other side closes the connection, or says nothing for 30 s.
void serve_link(int fd) noexcept;

}  // namespace lockstep::launch
