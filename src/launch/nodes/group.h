// SPDX-License-Identifier: Apache-2.0
// The group of nodes that train together: its members, and the decisions to start, stop, restart and end. Pure: its
// inputs are times and events, and its outputs are decisions with reasons, as in torchelastic's rendezvous.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/nodes/blame.h"
#include "launch/nodes/messages.h"
#include "lockstep/base/clock.h"
#include "lockstep/launch/agent.h"

namespace lockstep::launch {

struct GroupOptions {
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;
  std::chrono::milliseconds join_timeout{600'000};
  std::chrono::milliseconds last_call{30'000};  ///< how long a group that has enough nodes waits for more
  std::chrono::milliseconds silence{6'000};     ///< length of silence after which a node counts as lost
  TakeIn take_in = TakeIn::kAtCheckpoint;

  /// Returns true if nodes may join and leave.
  [[nodiscard]] bool is_range() const { return min_nodes != max_nodes; }
};

struct GroupNode {
  enum class Phase : std::uint8_t { kWaiting, kRunning, kEnded };
  NodeInfo info;
  TimePoint joined;
  Phase phase = Phase::kWaiting;
  bool is_serving = false;  ///< its agent serves the store
  int node_rank = -1;       ///< number in the current round
  int first_rank = 0;
  NodeEnd end = {};       ///< kEnded: how its ranks ended
  std::string held = {};  ///< kWaiting: the reason that was reported
};

/// A node whose rank computed wrong numbers.
struct ExcludedNode {
  std::string id;
  std::string host;  ///< host name; empty if other nodes have the same name
  std::string why;
};

/// A group's state: idle (nodes join) -> running (a round) -> idle, or over. Owned by the coordinator's thread.
struct GroupState {
  explicit GroupState(TimePoint now) : idle_since(now), last_join(now) {}

  std::vector<GroupNode> nodes = {};  ///< nodes present, in the order they joined
  std::vector<ExcludedNode> excluded = {};
  std::vector<std::string> lost_before = {};  ///< ids of agents that were lost before their kJoined event came
  std::vector<std::string> hosts = {};        ///< all hosts of all rounds, in the order of their ranks
  bool is_running = false;
  bool is_over = false;
  int round = -1;          ///< number of the newest round; -1 if none yet
  int restarts = 0;        ///< restarts used up, out of --max-restarts
  int max_world_size = 0;  ///< maximum number of ranks of the job; determined by its first round
  /// Number of the run's replicas, if the program reports it. Each rank needs one: surplus nodes wait as spares.
  std::optional<std::int64_t> replicas = {};
  TimePoint idle_since;
  TimePoint last_join;
  TimePoint round_began = {};

  // The members below belong to the current round.
  bool is_stopping = false;
  bool stops_for_joiners = false;
  std::optional<FailureRecord> lost = {};         ///< the first node lost
  int lost_ranks = 0;                             ///< number of ranks of that node
  std::optional<NodeName> left = {};              ///< the lost node, if it closed the connection
  std::optional<FailureRecord> claim = {};        ///< the first failure, according to the ranks
  int left_by_signal = 0;                         ///< signal that ended a node's agent
  std::optional<std::int64_t> saves = {};         ///< number of checkpoints so far, if the program counts them
  std::optional<std::int64_t> saves_before = {};  ///< value of `saves` when a node asked to join

  // The state of the deciding process.
  std::chrono::milliseconds stopped_for{0};  ///< how long it was last stopped
  TimePoint stopped_until = {};
};

struct Decision {
  enum class Kind : std::uint8_t { kWait, kRefuse, kStart, kStop, kAgain, kEnd, kHold };
  Kind kind = Kind::kWait;
  std::string reason = {};
  std::vector<std::string> ids = {};  ///< agents that the decision is for; kStart: in the order of their node ranks
  std::optional<FailureRecord> cause = {};
  int max_world_size = 0;    ///< kStart: maximum number of ranks of the job
  int min_world_size = 0;    ///< kStart, elastic job: minimum number of ranks with which it can continue
  int code = 0;              ///< kEnd: exit code
  bool is_graceful = false;  ///< kStop, kEnd: the value of Order::is_graceful
  bool is_restart = false;   ///< kAgain: it uses up one of --max-restarts
  std::optional<ExcludedNode> excluded = {};  ///< kAgain: node that may no longer participate
  TimePoint next = TimePoint::max();          ///< kWait: when to decide again if nothing happens
};

/// Updates the state for an event. An event from an absent node, or from an earlier round, changes nothing.
void apply(GroupState& state, const Event& event, TimePoint now, const GroupOptions& options);

/// Sets the number of checkpoints that the program has committed in this round; none if it does not count them.
void observe_saves(GroupState& state, std::optional<std::int64_t> saves);

/// Sets the number of the run's replicas; none if the program does not report it.
void observe_replicas(GroupState& state, std::optional<std::int64_t> replicas);

/// Records that the deciding process was stopped for `time`, until `now`: other nodes may have given up on it.
void observe_stop(GroupState& state, std::chrono::milliseconds time, TimePoint now);

/// Returns true if a node is waiting to join the running round and there is room for it.
[[nodiscard]] bool has_joiners(const GroupState& state, const GroupOptions& options);

/// Decides the next action.
[[nodiscard]] Decision decide(TimePoint now, const GroupState& state, const GroupOptions& options);

/// Changes the state according to the decision.
void carry_out(GroupState& state, const Decision& decision, TimePoint now);

}  // namespace lockstep::launch
