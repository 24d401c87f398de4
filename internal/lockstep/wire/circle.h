// SPDX-License-Identifier: Apache-2.0
// Messages between ranks over their own connections. Each rank listens once and puts its address into the store. Two
// ranks connect when they first exchange a message, prove to each other that they know the job's secret, and encrypt.
// docs/design/network.md has the terms and the threats. Knows no tensors.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/store/store.h"

#pragma GCC visibility push(default)

namespace lockstep::wire {

/// The other end is gone, or has sent something that no rank sends. what() says which.
class ConnectionLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Another rank sends a message of another length than this one waits for: their calls differ. The messages before it
/// have come.
class WrongLength : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An exchange was interrupted, or its time is over. what() says why the suspect is not connected; empty: it is.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// How a rank and those that it meets in the store are connected. Only `rank` and `address` differ between them.
struct HubOptions {
  std::shared_ptr<Store> store = {};     ///< shared by all of them
  std::string prefix = {};               ///< of their keys in the store
  int rank = 0;                          ///< this one
  int size = 1;                          ///< number of ranks
  std::string address = {};              ///< of this host, numeric; the others connect to it
  std::string token = {};                ///< the job's secret; empty: it has none
  bool is_encrypted = true;              ///< with TLS 1.3; else the bytes are in the clear
  std::chrono::milliseconds timeout{0};  ///< timeout of an exchange in this job; a connection opens within a part of it
};

/// One rank's listener, and its look-up of the other ranks' addresses.
class Hub;

/// Listens, and puts the address into the store. Blocks: while the store does. Throws: IoError, ResourceError for the
/// socket; the store's errors.
[[nodiscard]] std::shared_ptr<Hub> open_hub(const HubOptions& options);

/// A message to or from one rank.
struct Message {
  int rank = 0;               ///< the other one
  std::byte* data = nullptr;  ///< its bytes, or the place for them
  std::size_t bytes = 0;      ///< its length
};

/// The connections between the ranks that use one number. One thread at a time uses a circle, and does all its work: it
/// sends and receives as much as possible without a wait, then waits for the descriptors.
class Circle {
 public:
  /// No other circle of the hub has this `number`.
  Circle(std::shared_ptr<Hub> hub, std::uint64_t number);
  ~Circle();
  Circle(const Circle&) = delete;
  Circle& operator=(const Circle&) = delete;

  /// The messages to send and to receive, and the functions to call meanwhile.
  struct Exchange {
    const std::vector<Message>& sends;                 ///< messages of no bytes are left out
    const std::vector<Message>& receives;              ///< between two ranks messages match in order
    std::function<void(std::size_t)> arrived = {};     ///< called with the number of bytes that have come of every
                                                       ///< message
    std::function<void(int rank)> not_connected = {};  ///< called each 100 ms while that rank is not; may throw
    TimePoint end = TimePoint::max();                  ///< Interrupted at this moment of AwakeClock
  };

  /// Sends and receives all of them. After an exception the circle must not be used again.
  /// Blocks: until then. Throws: ConnectionLost, WrongLength, Interrupted; the exceptions of `not_connected`.
  void exchange(const Exchange& exchange);

  /// Returns the rank that made exchange() throw.
  [[nodiscard]] int suspect() const noexcept;

  /// Ends an exchange under way with Interrupted. Thread-safe: yes.
  void interrupt() noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::wire

#pragma GCC visibility pop
