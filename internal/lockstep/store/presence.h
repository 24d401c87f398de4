// SPDX-License-Identifier: Apache-2.0
// Whether a process still lives, as the store sees it: a connection with a heartbeat and a last will, as MQTT has them
// (OASIS, MQTT 5.0, section 3.1.2.5). Free of libtorch.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/store/store.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// What happens at the store when this process is lost.
struct PresenceOptions {
  /// The keys that the server sets where they are unset when the process is lost. Their value is "closed" (the
  /// connection ended: the process or its host died) or "silent" (no heartbeat: the link is cut, or the process
  /// frozen), a newline, and the will. A key that ends with "/" is a queue, to which the server appends that value.
  std::vector<std::string> keys;
  std::string will;  ///< the text of the value, such as which node this is
  /// Both sides take the other for lost where they hear nothing for so long. Heartbeats go six times as often.
  std::chrono::milliseconds silence{6000};
};

/// Keeps this process present at a store, from a thread of its own, until it is destroyed: then the process has left,
/// and the will is not published, unless abandon() was called. Thread-safe: yes.
class Presence {
 public:
  /// Connects; blocks up to `timeout`. Throws: PeerError, TimeoutError, UsageError, as connect_store() does.
  Presence(const StoreAddress& address, const PresenceOptions& options, std::chrono::milliseconds timeout);
  ~Presence();
  Presence(const Presence&) = delete;
  Presence& operator=(const Presence&) = delete;

  /// Becomes readable when the server is lost: it closed the connection, or was silent for too long.
  [[nodiscard]] int fd() const noexcept;
  /// Returns "closed" or "silent" where the server is lost, else "".
  [[nodiscard]] std::string lost() const;
  /// The process goes without having said what others wait for: the end of this publishes the will.
  void abandon() noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

#pragma GCC visibility pop
