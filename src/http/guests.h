// SPDX-License-Identifier: Apache-2.0
// Decides who stays connected and who has to go; the caller has the sockets and the time. Thread-safe: no.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <vector>

#include "lockstep/base/clock.h"

namespace lockstep::http {

class Guests {
 public:
  static constexpr std::chrono::seconds kHeadTime{5};  ///< for a request's head, from the connection or the last answer
  static constexpr std::chrono::seconds kAnswerTime{20};  ///< for a stranger to read the answer

  /// `places`: for unknown clients.
  explicit Guests(std::size_t places) : places_(places) {}

  /// Adds a connection. Returns the sockets that lose their places to it.
  [[nodiscard]] std::vector<int> add(int socket, TimePoint now);
  /// Notes that its request is whole; `is_known`: the request has proved its sender.
  void ask(int socket, bool is_known, TimePoint now);
  /// Notes that its response is sent.
  void answered(int socket, TimePoint now);
  void leave(int socket) { guests_.erase(socket); }

  /// Returns the sockets whose time is over, each only once.
  [[nodiscard]] std::vector<int> late(TimePoint now);
  [[nodiscard]] std::vector<int> all() const;
  [[nodiscard]] bool empty() const noexcept { return guests_.empty(); }

 private:
  struct Guest {
    TimePoint since;
    std::size_t number = 0;  ///< the older, the smaller
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
