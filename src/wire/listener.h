// SPDX-License-Identifier: Apache-2.0
// The way for other ranks to reach this one: one port for all connections of a group. A thread accepts calls, reads
// each caller's hello, and keeps callers that know the group's key until the rank wants them. A stranger costs one
// HMAC, holds a descriptor for a moment, and keeps no rank out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/base/file_system.h"
#include "wire/hello.h"
#include "wire/sockets.h"

namespace lockstep::wire {

/// A rank that has called and knows the key.
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
    std::string address;       ///< of this host, numeric
    std::string key;           ///< wire_key()
    std::string nonce;         ///< as the store has it
    int rank = 0;              ///< this one
    int size = 1;              ///< number of ranks
    bool is_encrypted = true;  ///< callers must agree
  };

  /// Throws: IoError, ResourceError.
  explicit Listener(const Options& options);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] Endpoint endpoint() const;

  /// Returns the call of a rank if it has come, the latest of several. Thread-safe: yes.
  [[nodiscard]] std::optional<Caller> take(const Wanted& wanted);

  /// Wakes `wakeup` when a peer calls for the circle; null: no longer. Thread-safe: yes.
  void watch(std::uint64_t circle, std::shared_ptr<Wakeup> wakeup);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::wire
