// SPDX-License-Identifier: Apache-2.0
// The messages between the agents of a job and its coordinator, as JSON in the store. All functions are pure.
//
// An agent appends events to one queue; the coordinator, a thread of the agent that serves the store, appends orders to
// a queue per agent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/failure_record.h"

namespace lockstep::launch {

/// The prefix of all keys of agents and coordinator. The store lets no other process write them; agents may only append
/// to the event queue, which only the coordinator reads.
inline constexpr const char* kKeptKeys = "lockstep/nodes/";
/// The prefix of the event queue.
inline constexpr const char* kEventQueue = "lockstep/nodes/events/";
/// The key under which waiting agents find a description of the nodes that have joined so far.
inline constexpr const char* kPresentKey = "lockstep/nodes/present";

/// Returns the queue of orders to the agent `id`.
[[nodiscard]] std::string order_queue(const std::string& id);

/// Returns the prefix of all keys of a round's ranks. `nonce` is unique to the coordinator: ranks started by a stale
/// order do not meet those of another coordinator's round in a new store at the same address.
[[nodiscard]] std::string round_keys(const std::string& nonce, int round);

/// A node's description, which its agent sends when it joins.
struct NodeInfo {
  std::string id;    ///< id and secret of this agent's connection; replaced once the agent has lost the store
  std::string host;  ///< host name; a host's ranks keep their place from round to round
  int wish = -1;     ///< value of --node-rank; -1 means any
  int processes = 1;
  int min_nodes = 1;
  int max_nodes = 1;
  int last_round = -1;                  ///< latest round that the node was part of; -1 if none
  int restarts = 0;                     ///< restarts used up, as far as the node knows
  int max_world_size = 0;               ///< maximum number of ranks of the job; 0 if the node does not know it
  std::vector<std::string> peers = {};  ///< hosts of its last round, in the order of their node ranks
};

/// How one node's ranks ended in one round.
struct NodeEnd {
  int round = 0;
  bool is_success = false;
  std::string place = {};        ///< is_success: the last place of its first rank, " in step 418"; "" if unknown
  int interrupted_by = 0;        ///< signal that its agent received
  bool left_by_request = false;  ///< a rank was asked to save and leave, and did so
  bool has_lost_store = false;   ///< its agent lost contact with the store and stopped its ranks
  bool is_consequence = false;   ///< its ranks merely report a failure elsewhere
  int code = 0;                  ///< exit code of its first failure
  std::optional<FailureRecord> cause = {};  ///< its first failure, with the type and text of the error
};

struct Event {
  enum class Kind : std::uint8_t { kJoined, kEnded, kLeft, kLost };
  Kind kind = Kind::kLeft;
  NodeInfo node = {};    ///< kJoined: all fields; otherwise only the id
  NodeEnd end = {};      ///< kEnded: how its ranks ended
  int signal = 0;        ///< signal that its agent got
  std::string why = {};  ///< kLost: "closed" or "silent"
};

struct Member {
  std::string
      id;  ///< id, only in an order to that agent, otherwise empty: with the id, another agent could impersonate it
  std::string host;
  int processes = 1;
};

struct Order {
  /// kRun: start the ranks of `round`. kStop: end them. kAgain: they failed and another round begins. kEnd: the job is
  /// over. kRefuse: this node cannot participate, because of `cause`. kHold: it waits while others train, because of
  /// `reason`.
  enum class Kind : std::uint8_t { kRun, kStop, kAgain, kEnd, kRefuse, kHold };
  Kind kind = Kind::kEnd;
  std::string reason = {};
  std::optional<FailureRecord> cause = {};
  int round = 0;
  int restarts = 0;                  ///< kRun: restarts used up
  int max_world_size = 0;            ///< kRun: maximum number of ranks of the job
  int min_world_size = 0;            ///< kRun: minimum number of ranks with which an elastic job can continue; else 0
  std::uint16_t master_port = 0;     ///< kRun: port for programs that create their own store
  std::string keys = {};             ///< kRun: round_keys(), unique to this coordinator's round
  std::vector<Member> members = {};  ///< kRun: the nodes, in the order of their node ranks
  /// kStop: the ranks are healthy; they save and leave. kEnd: they were asked to leave and did so: none has failed.
  bool is_graceful = false;
  int code = 0;  ///< kEnd: the launcher's exit code
};

[[nodiscard]] std::string to_text(const Event& event);
/// Parses the text of to_text(), or a last will: "closed" or "silent", a newline, and the id. None if it is neither.
[[nodiscard]] std::optional<Event> parse_event(const std::string& text);

[[nodiscard]] std::string to_text(const Order& order);
[[nodiscard]] std::optional<Order> parse_order(const std::string& text);

}  // namespace lockstep::launch
