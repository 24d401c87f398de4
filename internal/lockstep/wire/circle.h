// SPDX-License-Identifier: Apache-2.0
// Messages between ranks over their own connections. Each rank listens once and puts its address into the store. Two
// ranks connect when they first exchange a message, prove to each other that they know the job's secret, and encrypt
// the connection. docs/design/network.md has the terms and the threats. It transfers bytes, not tensors.
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

/// The other end is gone, or has sent bytes that a rank never sends. what() describes it.
class ConnectionLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A message from a rank has an unexpected length, because the two ranks' calls differ. The earlier messages have
/// arrived.
class WrongLength : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An exchange was interrupted or timed out. what() is the reason why suspect() is not connected; empty if it is
/// connected.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The settings of the connections between the ranks of a store. Only `rank` and `address` differ between ranks.
struct HubOptions {
  std::shared_ptr<Store> store = {};     ///< the store that all ranks share
  std::string prefix = {};               ///< prefix of the ranks' keys in the store
  int rank = 0;                          ///< this rank
  int size = 1;                          ///< number of ranks
  std::string address = {};              ///< numeric address of this host, to which the other ranks connect
  std::string token = {};                ///< the job's secret; empty: it has none
  bool is_encrypted = true;              ///< true: connections use TLS 1.3
  std::chrono::milliseconds timeout{0};  ///< timeout of an exchange in this job; opening a connection gets part of it
};

/// One rank's listener, and its look-up of the other ranks' addresses.
class Hub;

/// Listens, and puts the address into the store. Blocks: on the store. Throws: IoError or ResourceError for the socket;
/// the store's errors.
[[nodiscard]] std::shared_ptr<Hub> open_hub(const HubOptions& options);

/// A message to or from one rank.
struct Message {
  int rank = 0;               ///< the other rank
  std::byte* data = nullptr;  ///< the bytes to send, or the memory to receive them
  std::size_t bytes = 0;      ///< its length
};

/// A set of connections between the ranks. All ranks give the set the same number. Only one thread at a time may use a
/// circle, and that thread does all the work: it sends and receives as much as it can, then waits for the descriptors.
class Circle {
 public:
  /// `number` must be unique among the circles of the hub.
  Circle(std::shared_ptr<Hub> hub, std::uint64_t number);
  ~Circle();
  Circle(const Circle&) = delete;
  Circle& operator=(const Circle&) = delete;

  /// The messages to send and to receive, and the functions to call during the exchange.
  struct Exchange {
    const std::vector<Message>& sends;                 ///< empty messages are skipped
    const std::vector<Message>& receives;              ///< messages between two ranks match in order
    std::function<void(std::size_t)> arrived = {};     ///< called with the number of bytes of each message that have
                                                       ///< arrived
    std::function<void(int rank)> not_connected = {};  ///< called every 100 ms while `rank` is not connected; may throw
    TimePoint end = TimePoint::max();                  ///< the exchange throws Interrupted at this time on AwakeClock
  };

  /// Sends and receives all messages. After an exception the circle must not be used again.
  /// Blocks: until all are sent and received. Throws: ConnectionLost, WrongLength, Interrupted; the exceptions of
  /// `not_connected`.
  void exchange(const Exchange& exchange);

  /// Returns the rank that caused exchange() to throw.
  [[nodiscard]] int suspect() const noexcept;

  /// Ends an exchange in progress with Interrupted. Thread-safe: yes.
  void interrupt() noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::wire

#pragma GCC visibility pop
