// SPDX-License-Identifier: Apache-2.0
// A TCP connection between two hosts of a job, on which `lockstep doctor` measures. Whoever does not show the
// listener's password, which the store tells the ranks alone, is turned away.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

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
  void take_one();

  UniqueFd fd_;
  LinkAddress address_;
  std::map<int, UniqueFd> waiting_;
};

/// Connects as host `own`. Throws: IoError with the system's words.
[[nodiscard]] UniqueFd connect_link(const LinkAddress& to, int own);

/// Measures for about a second; the other side is in serve_link(). Throws: IoError.
[[nodiscard]] LinkFigures measure_link(int fd);

/// Answers until the other side closes the connection, or says nothing for 30 s.
void serve_link(int fd) noexcept;

}  // namespace lockstep::launch
