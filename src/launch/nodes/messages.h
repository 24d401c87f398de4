// SPDX-License-Identifier: Apache-2.0
// What the agents of a job and its coordinator tell each other, as JSON in the store. Pure.
//
// An agent appends events to one queue; the coordinator, a thread of the agent that serves the store, appends orders to
// a queue of each agent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/failure_record.h"

namespace lockstep::launch {

/// What all keys of agents and coordinator begin with. The store lets no other process write them: agents append to the
/// queue of events, which only the coordinator reads.
inline constexpr const char* kKeptKeys = "lockstep/nodes/";
/// The store's queue of events.
inline constexpr const char* kEventQueue = "lockstep/nodes/events/";
/// The store's key of the nodes that have joined so far, in words, for agents that wait.
inline constexpr const char* kPresentKey = "lockstep/nodes/present";

/// The store's queue of the orders to the agent `id`.
[[nodiscard]] std::string order_queue(const std::string& id);

/// What all keys of the ranks of a round begin with. `nonce` is the coordinator's own: ranks that an agent starts by an
/// old order meet none of a round that another coordinator has begun in another store at the same address.
[[nodiscard]] std::string round_keys(const std::string& nonce, int round);

/// What an agent says of its node when it joins.
struct NodeInfo {
  std::string id;    ///< of this agent's one connection, and its secret; another after it has lost the store
  std::string host;  ///< its ranks keep their place by this name
  int wish = -1;     ///< --node-rank; -1: any
  int processes = 1;
  int min_nodes = 1;
  int max_nodes = 1;
  int last_round = -1;                  ///< the newest round that it has been in; -1: none
  int restarts = 0;                     ///< restarts that are used up, as far as it knows
  int max_world_size = 0;               ///< ranks that the job may have at most; 0: it knows of none
  std::vector<std::string> peers = {};  ///< the hosts of its last round, in the order of their node ranks
};

/// How the ranks of one node ended in one round.
struct NodeEnd {
  int round = 0;
  bool is_success = false;
  int interrupted_by = 0;                   ///< the signal that its agent was given
  bool left_by_request = false;             ///< a rank was asked to save and leave, and did
  bool has_lost_store = false;              ///< its agent heard no more of the store, and stopped its ranks
  bool is_consequence = false;              ///< its ranks only name a failure elsewhere
  int code = 0;                             ///< exit code of its first failure
  std::optional<FailureRecord> cause = {};  ///< its first failure, with the type and words of the error
};

struct Event {
  enum class Kind : std::uint8_t { kJoined, kEnded, kLeft, kLost };
  Kind kind = Kind::kLeft;
  NodeInfo node = {};    ///< kJoined: whole; else its id
  NodeEnd end = {};      ///< kEnded
  int signal = 0;        ///< kLeft: the signal that its agent was given
  std::string why = {};  ///< kLost: "closed" or "silent"
};

struct Member {
  std::string id;  ///< of the agent to whom an order goes, else empty: who knows it can speak for that agent
  std::string host;
  int processes = 1;
};

struct Order {
  /// kRun: start the ranks of `round`. kStop: end them. kAgain: they failed, and another round begins. kEnd: the job is
  /// over. kRefuse: this node cannot take part; `cause` says why. kHold: it waits while others train; `reason` says
  /// why.
  enum class Kind : std::uint8_t { kRun, kStop, kAgain, kEnd, kRefuse, kHold };
  Kind kind = Kind::kEnd;
  std::string reason = {};
  std::optional<FailureRecord> cause = {};
  int round = 0;
  int restarts = 0;                  ///< kRun: restarts that are used up
  int max_world_size = 0;            ///< kRun: ranks that the job may have at most
  int min_world_size = 0;            ///< kRun: the fewest ranks with which a range goes on; 0: no range
  std::uint16_t master_port = 0;     ///< kRun
  std::string keys = {};             ///< kRun: round_keys(), which no round of another coordinator has
  std::vector<Member> members = {};  ///< kRun, in the order of their node ranks
  /// kStop: the ranks are healthy; they save and leave. kEnd: they were told to leave, and did: none has failed.
  bool is_graceful = false;
  int code = 0;  ///< kEnd: the launcher's exit code
};

[[nodiscard]] std::string to_text(const Event& event);
/// Reads what to_text() has written, or a last will: "closed" or "silent", a newline, and the id. Empty where it is
/// something else.
[[nodiscard]] std::optional<Event> parse_event(const std::string& text);

[[nodiscard]] std::string to_text(const Order& order);
[[nodiscard]] std::optional<Order> parse_order(const std::string& text);

}  // namespace lockstep::launch
