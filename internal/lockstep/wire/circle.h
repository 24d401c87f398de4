// SPDX-License-Identifier: Apache-2.0
// Messages between ranks over connections of their own: each listens once and says in the store where; two connect when
// they first have something to say, prove the job's secret to each other, and encrypt. docs/design/network.md has the
// words and the threats. Knows no tensor.
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

/// The other end is gone, or has sent what no rank sends. The words say which.
class ConnectionLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Another rank sends a message of another length than this one waits for: the two called different things. The
/// messages before it have come.
class WrongLength : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An exchange was interrupted, or its time is over. The words say why the suspect is not connected; empty: it is.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// How a rank and those that it meets in the store are connected; all but `rank` and `address` are the same on each.
struct HubOptions {
  std::shared_ptr<Store> store = {};     ///< of all of them
  std::string prefix = {};               ///< of keys that are theirs alone
  int rank = 0;                          ///< this one
  int size = 1;                          ///< number of ranks
  std::string address = {};              ///< of this host, numeric; the others reach it there
  std::string token = {};                ///< the job's secret; empty: it has none
  bool is_encrypted = true;              ///< by TLS 1.3; else the bytes are in the clear
  std::chrono::milliseconds timeout{0};  ///< the job's limit of an exchange; a connection opens within a part of it
};

/// Where a rank listens, and how it finds the others.
class Hub;

/// Listens, and says in the store where. Blocks: while the store does. Throws: IoError, ResourceError for the socket,
/// and as the store does.
[[nodiscard]] std::shared_ptr<Hub> open_hub(const HubOptions& options);

/// A message to or from one rank.
struct Message {
  int rank = 0;               ///< the other one
  std::byte* data = nullptr;  ///< its bytes, or the place for them
  std::size_t bytes = 0;      ///< how many
};

/// The connections between the ranks that use one number: it is the way of one thread at a time, which does all the
/// work. It sends and receives what goes, and waits for the descriptors.
class Circle {
 public:
  /// No other circle of the hub has this `number`.
  Circle(std::shared_ptr<Hub> hub, std::uint64_t number);
  ~Circle();
  Circle(const Circle&) = delete;
  Circle& operator=(const Circle&) = delete;

  /// What is to be sent and received, and what is asked meanwhile.
  struct Exchange {
    const std::vector<Message>& sends;                 ///< messages of no bytes are left out
    const std::vector<Message>& receives;              ///< between two ranks messages match in order
    std::function<void(std::size_t)> arrived = {};     ///< so many bytes of every message to receive are there
    std::function<void(int rank)> not_connected = {};  ///< called each 100 ms while that rank is not; may throw
    TimePoint end = TimePoint::max();                  ///< Interrupted then; a moment of AwakeClock
  };

  /// Sends and receives all of them. After an exception the circle is of no more use.
  /// Blocks: until then. Throws: ConnectionLost, WrongLength, Interrupted; what `not_connected` throws.
  void exchange(const Exchange& exchange);

  /// Returns the rank on whose account exchange() threw.
  [[nodiscard]] int suspect() const noexcept;

  /// Ends an exchange under way with Interrupted. Thread-safe: yes.
  void interrupt() noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::wire

#pragma GCC visibility pop
