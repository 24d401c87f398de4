// SPDX-License-Identifier: Apache-2.0
// Where the other ranks reach this one: one port for all connections of a group. A thread takes calls, reads who calls,
// and keeps those that know the group's key until the rank wants them. A stranger costs one HMAC, holds a descriptor
// for a moment, and keeps no rank out.
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
  std::string words;  ///< of the hello
};

/// Who is wanted: a rank, for a circle.
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
    bool is_encrypted = true;  ///< what callers must want, too
  };

  /// Throws: IoError, ResourceError.
  explicit Listener(const Options& options);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] Endpoint endpoint() const;

  /// Returns the call of a rank, where it has come; of several, the last. Thread-safe: yes.
  [[nodiscard]] std::optional<Caller> take(const Wanted& wanted);

  /// Wakes `wakeup` when somebody calls for the circle; null: no longer. Thread-safe: yes.
  void watch(std::uint64_t circle, std::shared_ptr<Wakeup> wakeup);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::wire
