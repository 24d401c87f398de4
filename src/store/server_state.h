// SPDX-License-Identifier: Apache-2.0
// What the connections of a server share: the table, who waits for what, and how many of each kind there are. Belongs
// to the server's thread.
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
  // A waiting client is listed under one key that it misses; when that comes, under the next.
  std::unordered_map<std::string, std::vector<ConnectionPtr>> waiting_for;
  // Those of `connections` that have not shown that they know the token.
  Strangers strangers;
  std::unordered_map<Strangers::Id, ConnectionPtr> stranger_of;
  Strangers::Id arrivals = 0;
  std::size_t knocked = 0;
  std::size_t known = 0;      // and came through the network
  std::size_t in_flight = 0;  // bytes of requests, replies and waits
  RareWarning turned_away;
  RareWarning dropped;
  asio::steady_timer warning_timer;

  void key_changed(const std::string& key);
  std::int64_t append(const std::string& queue, std::string value);
  /// A connection no longer waits for `key`.
  void unlist(const ConnectionPtr& connection, const std::string& key);
  /// A connection through the network has come.
  void arrived(const ConnectionPtr& connection, const std::string& address);
  /// False where there is no stranger.
  bool close_one_stranger();
  void left(Strangers::Id id) {
    strangers.remove(id);
    stranger_of.erase(id);
  }
  void note_turned_away(const std::string& address);
  void warn(std::size_t count, const std::string& address) const;
};

/// A frame that answers a verb which never waits. Empty where the request is malformed.
[[nodiscard]] std::string answer(ServerState& state, Verb verb, const std::string& key, FrameReader& request);

/// Whether a client from outside may do this: keys that are kept for this process it only reads, and an inbox it only
/// appends to.
[[nodiscard]] bool is_for_all(const ServerState& state, Verb verb, const std::string& key);

/// Says an exception as an error of the server.
void say(const std::exception& problem) noexcept;

}  // namespace lockstep::store
