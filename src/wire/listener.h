// SPDX-License-Identifier: Apache-2.0
// Accepts the connections of other ranks, on one port for all connections of a group. A thread accepts calls, reads
// each caller's hello, and keeps callers that know the group's key until the rank wants them. A stranger costs one
// HMAC, holds a descriptor for a short time, and cannot keep ranks out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/base/file_system.h"
#include "wire/hello.h"
#include "wire/sockets.h"

namespace lockstep::wire {

/// A call from a rank that knows the key.
struct Caller {
  UniqueFd fd;
  Hello hello;
  std::string words;  ///< the bytes of the hello
};

/// The caller that a circle waits for.
struct Wanted {
  std::uint64_t circle = 0;
  int from = 0;
};

class Listener {
 public:
  struct Options {
    std::string address;       ///< numeric address of this host
    std::string key;           ///< wire_key()
    std::string nonce;         ///< this rank's nonce in the store
    int rank = 0;              ///< this rank
    int size = 1;              ///< number of ranks
    bool is_encrypted = true;  ///< callers must have the same value
  };

  /// Throws: IoError, ResourceError.
  explicit Listener(const Options& options);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] Endpoint endpoint() const;

  /// Returns the latest call of a rank; none if it has not called. Thread-safe: yes.
  [[nodiscard]] std::optional<Caller> take(const Wanted& wanted);

  /// Sets the object to wake when a peer calls for the circle; null if none. Thread-safe: yes.
  void watch(std::uint64_t circle, std::shared_ptr<Wakeup> wakeup);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::wire
