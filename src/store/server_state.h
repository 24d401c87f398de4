// SPDX-License-Identifier: Apache-2.0
// The state that the connections of a server share: the table, the waits, and the number of connections of each kind.
// Only the server's thread uses it.
#pragma once

#include <asio.hpp>
#include <asio/ssl.hpp>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lockstep/store/rare_warning.h"
#include "lockstep/store/store.h"
#include "lockstep/store/strangers.h"
#include "store/table.h"
#include "store/wire.h"

namespace lockstep::store {

class Connection;
using ConnectionPtr = std::shared_ptr<Connection>;

struct ServerState {
  ServerState(asio::io_context& io, const StoreServer::Options& options, const DoorLimits& door);

  const std::string token;
  const std::string knocks;  // the knock key; empty if connections are not encrypted
  const std::string kept;    // see StoreServer::Options
  const std::string inbox;
  const DoorLimits limits;
  std::optional<asio::ssl::context> tls;  // none if connections are not encrypted; it outlives them
  Table table;
  std::unordered_set<ConnectionPtr> connections;
  // A waiting client is listed under one missing key; when that key is set, under its next missing key.
  std::unordered_map<std::string, std::vector<ConnectionPtr>> waiting_for;
  // The `connections` that have not proved that they know the token.
  Strangers strangers;
  std::unordered_map<Strangers::Id, ConnectionPtr> stranger_of;
  Strangers::Id arrivals = 0;
  std::size_t knocked = 0;
  std::size_t known = 0;      // network clients that have been let in
  std::size_t in_flight = 0;  // bytes of requests, replies and waits
  RareWarning turned_away;
  RareWarning dropped;
  asio::steady_timer warning_timer;

  void key_changed(const std::string& key);
  std::int64_t append(const std::string& queue, std::string value);
  /// Records that a connection no longer waits for `key`.
  void unlist(const ConnectionPtr& connection, const std::string& key);
  /// Records that a connection came through the network.
  void arrived(const ConnectionPtr& connection, const std::string& address);
  /// Closes the oldest connection of a stranger. Returns false if there is none.
  bool close_one_stranger();
  void left(Strangers::Id id) {
    strangers.remove(id);
    stranger_of.erase(id);
  }
  void note_turned_away(const std::string& address);
  void warn(std::size_t count, const std::string& address) const;
};

/// Returns the reply to a verb that does not wait; empty if the request is malformed.
[[nodiscard]] std::string answer(ServerState& state, Verb verb, const std::string& key, FrameReader& request);

/// Returns true if a client of another process may do this: such a client may only read keys with the prefix `kept`,
/// and only append to the inbox.
[[nodiscard]] bool is_for_all(const ServerState& state, Verb verb, const std::string& key);

/// Logs an exception as a server error.
void say(const std::exception& problem) noexcept;

}  // namespace lockstep::store
