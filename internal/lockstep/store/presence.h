// SPDX-License-Identifier: Apache-2.0
// Shows a store's server that a process is alive: a connection with a heartbeat and a last will, as in MQTT (OASIS,
// MQTT 5.0, section 3.1.2.5). It does not use libtorch.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/store/store.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The settings of a Presence.
struct PresenceOptions {
  /// The keys that the server sets, if they are unset, when the process is lost. The value is "closed" (the connection
  /// ended because the process or its host died) or "silent" (no heartbeat arrives because the link is cut or the
  /// process is frozen), a newline, and the will. If a key ends with "/", the server appends the value to that queue.
  std::vector<std::string> keys;
  std::string will;  ///< the last part of the value, such as the node's name
  /// Each side considers the other lost after this much silence. Heartbeats are sent six times as often.
  std::chrono::milliseconds silence{6000};
};

/// Sends heartbeats to a store from its own thread until it is destroyed. The process is then considered to have left,
/// and the server does not publish its will, unless abandon() was called. Thread-safe: yes.
class Presence {
 public:
  /// Connects; blocks up to `timeout`. Throws: anything connect_store() throws, and PeerError.
  Presence(const StoreAddress& address, const PresenceOptions& options, std::chrono::milliseconds timeout);
  ~Presence();
  Presence(const Presence&) = delete;
  Presence& operator=(const Presence&) = delete;

  /// Becomes readable when the server is lost: it closed the connection, or was silent for too long.
  [[nodiscard]] int fd() const noexcept;
  /// Returns "closed" or "silent" if the server is lost, else "".
  [[nodiscard]] std::string lost() const;
  /// Makes the destructor publish the will: the process leaves without a report that others are waiting for.
  void abandon() noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

#pragma GCC visibility pop
