// SPDX-License-Identifier: Apache-2.0
// Limits the connections of strangers, which have not yet proved that they know the token, and decides which one is
// closed to admit a new one: the oldest one from the address with the most. This does not keep ranks out, because a
// rank is a stranger for only one round trip. The class does not use sockets.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#pragma GCC visibility push(default)

namespace lockstep::store {

/// The connections of strangers. Thread-safe: no. Example: if (const auto leaves = strangers.add(id, address))
/// close(*leaves);
class Strangers {
 public:
  using Id = std::uint64_t;  ///< grows with each arrival

  /// The largest numbers of connections.
  struct Limits {
    std::size_t per_address = 64;  ///< from one address
    std::size_t total = 256;       ///< from all addresses
  };

  /// Creates an empty list with these limits.
  explicit Strangers(Limits limits) : limits_(limits) {}

  /// Adds a connection. Returns the connection that must be closed to make room, which is no longer in the list.
  [[nodiscard]] std::optional<Id> add(Id id, const std::string& address);
  /// Removes a connection that has proved itself or closed. Does nothing if it is not in the list.
  void remove(Id id);
  /// Removes and returns the oldest stranger, to free a descriptor; nothing if there is none.
  [[nodiscard]] std::optional<Id> give_up_one();

  /// Returns the number of strangers.
  [[nodiscard]] std::size_t size() const { return all_.size(); }

 private:
  // Removes and returns the oldest stranger from `address`; from any address if it is empty.
  std::optional<Id> take_oldest(const std::string& address);

  Limits limits_;
  std::map<Id, std::string> all_;  // the address of each connection
  std::unordered_map<std::string, std::size_t> by_address_;
};

/// The limits of a server's connections, by kind. A connection over the limit of its own kind is closed.
struct DoorLimits {
  Strangers::Limits strangers = {};  ///< connections without any proof
  std::size_t knocked = 256;         ///< connections that have proved they know the token and are about to be encrypted
  std::size_t known = 640;           ///< clients that have been admitted
};

/// Returns limits that leave enough of a process's `open_files` descriptors for its other work.
[[nodiscard]] DoorLimits door_limits(std::uint64_t open_files);

/// Returns the address by which strangers are counted: for IPv6 only the first four groups, because one machine has all
/// addresses that begin with them.
[[nodiscard]] std::string stranger_address(const std::string& address);

}  // namespace lockstep::store

#pragma GCC visibility pop
