// SPDX-License-Identifier: Apache-2.0
// The state that the connections of a server share: the table, the waits, and the number of connections of each kind.
// Belongs to the server's thread.
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
  const std::string knocks;  // the key of knocks; empty: connections are not encrypted
  const std::string kept;    // as StoreServer::Options
  const std::string inbox;
  const DoorLimits limits;
  std::optional<asio::ssl::context> tls;  // none: connections are not encrypted. Outlives them.
  Table table;
  std::unordered_set<ConnectionPtr> connections;
  // A waiting client is listed under one key that it misses; when that key is set, under the next.
  std::unordered_map<std::string, std::vector<ConnectionPtr>> waiting_for;
  // Those of `connections` that have not proved that they know the token.
  Strangers strangers;
  std::unordered_map<Strangers::Id, ConnectionPtr> stranger_of;
  Strangers::Id arrivals = 0;
  std::size_t knocked = 0;
  std::size_t known = 0;      // connected through the network
  std::size_t in_flight = 0;  // bytes of requests, replies and waits
  RareWarning turned_away;
  RareWarning dropped;
  asio::steady_timer warning_timer;

  void key_changed(const std::string& key);
  std::int64_t append(const std::string& queue, std::string value);
  /// Notes that a connection no longer waits for `key`.
  void unlist(const ConnectionPtr& connection, const std::string& key);
  /// Notes that a connection came through the network.
  void arrived(const ConnectionPtr& connection, const std::string& address);
  /// Returns false if there is no stranger.
  bool close_one_stranger();
  void left(Strangers::Id id) {
    strangers.remove(id);
    stranger_of.erase(id);
  }
  void note_turned_away(const std::string& address);
  void warn(std::size_t count, const std::string& address) const;
};

/// A frame that answers a verb which never waits. Empty if the request is malformed.
[[nodiscard]] std::string answer(ServerState& state, Verb verb, const std::string& key, FrameReader& request);

/// True if a client from outside may do this: it may only read keys that are kept for this process, and only append to
/// an inbox.
[[nodiscard]] bool is_for_all(const ServerState& state, Verb verb, const std::string& key);

/// Logs an exception as an error of the server.
void say(const std::exception& problem) noexcept;

}  // namespace lockstep::store
