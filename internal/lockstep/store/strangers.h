// SPDX-License-Identifier: Apache-2.0
// Connections that have not proved that they know the token: how many may stay, and which has to go for a new one. They
// keep no rank out: the oldest of the address with the most goes, and a rank is a stranger for one round trip only.
// Knows no sockets; pure bookkeeping.
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

  /// How many may stay.
  struct Limits {
    std::size_t per_address = 64;  ///< of one address
    std::size_t total = 256;       ///< of all
  };

  /// Keeps at most `limits`.
  explicit Strangers(Limits limits) : limits_(limits) {}

  /// Adds one. Returns the one that has to go for it, already removed here.
  [[nodiscard]] std::optional<Id> add(Id id, const std::string& address);
  /// Removes a connection that has proved itself or closed. Does nothing if it is not in the list.
  void remove(Id id);
  /// Removes and returns the oldest stranger, to free a descriptor; nothing if there is none.
  [[nodiscard]] std::optional<Id> give_up_one();

  /// Returns their number.
  [[nodiscard]] std::size_t size() const { return all_.size(); }

 private:
  // The oldest; of `address` only, unless that is empty.
  std::optional<Id> take_oldest(const std::string& address);

  Limits limits_;
  std::map<Id, std::string> all_;  // with their addresses
  std::unordered_map<std::string, std::size_t> by_address_;
};

/// The limit of a server's connections of each kind. A connection over the limit of its kind has to go; other kinds are
/// not affected.
struct DoorLimits {
  Strangers::Limits strangers = {};  ///< that have proved nothing
  std::size_t knocked = 256;         ///< that have proved the token, and are about to be encrypted
  std::size_t known = 640;           ///< clients
};

/// Returns limits low enough that a process with `open_files` allowed descriptors keeps some for its own work.
[[nodiscard]] DoorLimits door_limits(std::uint64_t open_files);

/// Returns the address as it counts for strangers: of IPv6 the first four groups, since one machine has all addresses
/// that begin with them.
[[nodiscard]] std::string stranger_address(const std::string& address);

}  // namespace lockstep::store

#pragma GCC visibility pop
