// SPDX-License-Identifier: Apache-2.0
// The messages between the agents of a job and its coordinator, as JSON in the store. All functions are pure.
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

/// The prefix of all keys of agents and coordinator. The store lets other processes write none of them; agents may only
/// append to the queue of events, which only the coordinator reads.
inline constexpr const char* kKeptKeys = "lockstep/nodes/";
/// The prefix of the queue of events.
inline constexpr const char* kEventQueue = "lockstep/nodes/events/";
/// The key of a text on the nodes that have joined so far, for agents that wait.
inline constexpr const char* kPresentKey = "lockstep/nodes/present";

/// Returns the queue of the orders to the agent `id`.
[[nodiscard]] std::string order_queue(const std::string& id);

/// Returns the prefix of all keys of a round's ranks. `nonce` is unique to the coordinator: ranks that are started by
/// an old order do not meet those of another coordinator's round in a new store at the same address.
[[nodiscard]] std::string round_keys(const std::string& nonce, int round);

/// A node's description, which its agent sends when it joins.
struct NodeInfo {
  std::string id;    ///< id and secret of this agent's connection; a new one after the agent has lost the store
  std::string host;  ///< host name, by which its ranks keep their place
  int wish = -1;     ///< value of --node-rank; -1: any
  int processes = 1;
  int min_nodes = 1;
  int max_nodes = 1;
  int last_round = -1;                  ///< newest round that the node has been in; -1: none
  int restarts = 0;                     ///< restarts that are used up, if it knows of any
  int max_world_size = 0;               ///< most ranks that the job may have; 0: unknown to it
  std::vector<std::string> peers = {};  ///< hosts of its last round, in the order of their node ranks
};

/// The end of one node's ranks in one round.
struct NodeEnd {
  int round = 0;
  bool is_success = false;
  int interrupted_by = 0;                   ///< signal that its agent got
  bool left_by_request = false;             ///< a rank was asked to save and leave, and did
  bool has_lost_store = false;              ///< its agent heard no more of the store, and stopped its ranks
  bool is_consequence = false;              ///< its ranks only name a failure elsewhere
  int code = 0;                             ///< exit code of its first failure
  std::optional<FailureRecord> cause = {};  ///< its first failure, with the type and words of the error
};

struct Event {
  enum class Kind : std::uint8_t { kJoined, kEnded, kLeft, kLost };
  Kind kind = Kind::kLeft;
  NodeInfo node = {};    ///< kJoined: all fields; else only the id
  NodeEnd end = {};      ///< kEnded: the end of its ranks
  int signal = 0;        ///< signal that its agent got
  std::string why = {};  ///< kLost: "closed" or "silent"
};

struct Member {
  std::string id;  ///< id, only in an order to that agent, else empty: with the id another agent could speak for it
  std::string host;
  int processes = 1;
};

struct Order {
  /// kRun: start the ranks of `round`. kStop: end them. kAgain: they failed, and another round begins. kEnd: the job is
  /// over. kRefuse: this node cannot take part, for `cause`. kHold: it waits while others train, for `reason`.
  enum class Kind : std::uint8_t { kRun, kStop, kAgain, kEnd, kRefuse, kHold };
  Kind kind = Kind::kEnd;
  std::string reason = {};
  std::optional<FailureRecord> cause = {};
  int round = 0;
  int restarts = 0;                  ///< kRun: restarts that are used up
  int max_world_size = 0;            ///< kRun: most ranks that the job may have
  int min_world_size = 0;            ///< kRun: fewest ranks with which a range continues; 0: not a range
  std::uint16_t master_port = 0;     ///< kRun: port for programs that make their own store
  std::string keys = {};             ///< kRun: round_keys(), unique to this coordinator's round
  std::vector<Member> members = {};  ///< kRun: the nodes, in the order of their node ranks
  /// kStop: the ranks are healthy; they save and leave. kEnd: they were asked to leave, and did: none has failed.
  bool is_graceful = false;
  int code = 0;  ///< kEnd: the launcher's exit code
};

[[nodiscard]] std::string to_text(const Event& event);
/// Parses the text of to_text(), or a last will: "closed" or "silent", a newline, and the id. None if it is neither.
[[nodiscard]] std::optional<Event> parse_event(const std::string& text);

[[nodiscard]] std::string to_text(const Order& order);
[[nodiscard]] std::optional<Order> parse_order(const std::string& text);

}  // namespace lockstep::launch
