// SPDX-License-Identifier: Apache-2.0
// Connects clients in the server's own process to its store, without a network, TLS or limits on strangers.
#pragma once

#include <functional>
#include <mutex>

#include "lockstep/base/file_system.h"
#include "lockstep/base/result.h"
#include "store/socket.h"

namespace lockstep {

/// Thread-safe: yes.
class StoreDoor {
 public:
  /// `admit` receives the server's end of a connection; any thread may call it.
  explicit StoreDoor(std::function<void(UniqueFd)> admit) : admit_(std::move(admit)) {}

  /// Returns a connection; fails once the server has ended. Throws: ResourceError if no descriptor is free.
  [[nodiscard]] Result<store::Socket> open();
  /// Closes the door; call it before the server ends.
  void close();

 private:
  std::mutex mutex_;
  std::function<void(UniqueFd)> admit_;  // empty once the server has ended
};

}  // namespace lockstep
