// SPDX-License-Identifier: Apache-2.0
// Decides which connections of the web server to close; the caller owns the sockets and the clock. Thread-safe: no.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <vector>

#include "lockstep/base/clock.h"

namespace lockstep::http {

class Guests {
 public:
  static constexpr std::chrono::seconds kHeadTime{
      5};  ///< limit for receiving a request's head, counted from the connection or the last response
  static constexpr std::chrono::seconds kAnswerTime{20};  ///< limit for an unknown client to receive the response

  /// `places` is the maximum number of unknown clients.
  explicit Guests(std::size_t places) : places_(places) {}

  /// Adds a connection. Returns the sockets that must be closed to make room for it.
  [[nodiscard]] std::vector<int> add(int socket, TimePoint now);
  /// Records that the socket's request is complete. `is_known` is true if the request has shown that its client is
  /// known.
  void ask(int socket, bool is_known, TimePoint now);
  /// Records that the socket's response has been sent.
  void answered(int socket, TimePoint now);
  void leave(int socket) { guests_.erase(socket); }

  /// Returns the sockets that have exceeded their limit, each only once.
  [[nodiscard]] std::vector<int> late(TimePoint now);
  [[nodiscard]] std::vector<int> all() const;
  [[nodiscard]] bool empty() const noexcept { return guests_.empty(); }

 private:
  struct Guest {
    TimePoint since;
    std::size_t number = 0;  ///< order of arrival: older connections have smaller numbers
    bool is_served = false;
    bool is_known = false;
    bool is_gone = false;  ///< already returned by late()
  };

  [[nodiscard]] static bool is_late(const Guest& guest, TimePoint now);

  std::size_t places_;
  std::size_t next_ = 0;
  std::map<int, Guest> guests_;
};

}  // namespace lockstep::http
