// SPDX-License-Identifier: Apache-2.0
// The group of nodes that train together: who belongs to it, when it starts, stops, starts again and ends. Pure: time
// and events come in, decisions with their reasons go out, as in the rendezvous of PyTorch's torchelastic.
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
  std::chrono::milliseconds last_call{30'000};  ///< how long a group that has enough nodes waits for another one
  std::chrono::milliseconds silence{6'000};     ///< after which a node is lost
  TakeIn take_in = TakeIn::kAtCheckpoint;

  /// Nodes may come and go.
  [[nodiscard]] bool is_range() const { return min_nodes != max_nodes; }
};

struct GroupNode {
  enum class Phase : std::uint8_t { kWaiting, kRunning, kEnded };
  NodeInfo info;
  TimePoint joined;
  Phase phase = Phase::kWaiting;
  bool is_serving = false;  ///< its agent serves the store
  int node_rank = -1;       ///< in the present round
  int first_rank = 0;
  NodeEnd end = {};       ///< kEnded
  std::string held = {};  ///< kWaiting: why, as it was told
};

/// A node whose rank computed wrong numbers.
struct ExcludedNode {
  std::string id;
  std::string host;  ///< empty: other nodes have that name, too
  std::string why;
};

/// States: idle (nodes join) -> running (a round) -> idle, or over. Owned by the coordinator's thread.
struct GroupState {
  explicit GroupState(TimePoint now) : idle_since(now), last_join(now) {}

  std::vector<GroupNode> nodes = {};  ///< those that are there, in the order in which they joined
  std::vector<ExcludedNode> excluded = {};
  std::vector<std::string> lost_before = {};  ///< ids of agents that were lost before their word that they join came
  std::vector<std::string> hosts = {};        ///< every host of any round, in the order in which their ranks lie
  bool is_running = false;
  bool is_over = false;
  int round = -1;          ///< the newest one; -1: none yet
  int restarts = 0;        ///< how many of --max-restarts are used up
  int max_world_size = 0;  ///< ranks that the job may have at most; its first round decides
  /// Of the run, where the program says so. Each rank needs one, so nodes beyond them wait as spares.
  std::optional<std::int64_t> replicas = {};
  TimePoint idle_since;
  TimePoint last_join;
  TimePoint round_began = {};

  // Of the present round.
  bool is_stopping = false;
  bool stops_for_joiners = false;
  std::optional<FailureRecord> lost = {};         ///< the node that was lost first
  int lost_ranks = 0;                             ///< how many it has
  std::optional<NodeName> left = {};              ///< that node, where it has closed the connection
  std::optional<FailureRecord> claim = {};        ///< what the ranks say failed first
  int left_by_signal = 0;                         ///< the signal that ended a node's agent
  std::optional<std::int64_t> saves = {};         ///< checkpoints so far, where the program counts them
  std::optional<std::int64_t> saves_before = {};  ///< as they were when a node came to join

  // Of the process that decides.
  std::chrono::milliseconds stopped_for{0};  ///< how long it was stopped when it was last
  TimePoint stopped_until = {};
};

struct Decision {
  enum class Kind : std::uint8_t { kWait, kRefuse, kStart, kStop, kAgain, kEnd, kHold };
  Kind kind = Kind::kWait;
  std::string reason = {};
  std::vector<std::string> ids = {};  ///< to whom it goes; kStart: in the order of their node ranks
  std::optional<FailureRecord> cause = {};
  int max_world_size = 0;                     ///< kStart: as GroupState
  int min_world_size = 0;                     ///< kStart, a range: the fewest ranks with which it can go on
  int code = 0;                               ///< kEnd
  bool is_graceful = false;                   ///< kStop, kEnd: as Order
  bool is_restart = false;                    ///< kAgain: it uses up one of --max-restarts
  std::optional<ExcludedNode> excluded = {};  ///< kAgain: who may not take part any more
  TimePoint next = TimePoint::max();          ///< kWait: when to decide again if nothing happens
};

/// Takes in what happened. An event of a node that is not there, or of an earlier round, changes nothing.
void apply(GroupState& state, const Event& event, TimePoint now, const GroupOptions& options);

/// Takes in how many checkpoints the program has committed in this round; none: it does not count them.
void observe_saves(GroupState& state, std::optional<std::int64_t> saves);

/// Takes in how many replicas the run has; none: the program does not say it.
void observe_replicas(GroupState& state, std::optional<std::int64_t> replicas);

/// Takes in that the process that decides was stopped for `time`, until now: others may have given it up meanwhile.
void observe_stop(GroupState& state, std::chrono::milliseconds time, TimePoint now);

/// Some node waits for a place in the round that runs, and there is one.
[[nodiscard]] bool has_joiners(const GroupState& state, const GroupOptions& options);

/// Decides what comes next.
[[nodiscard]] Decision decide(TimePoint now, const GroupState& state, const GroupOptions& options);

/// Changes the state as the decision says.
void carry_out(GroupState& state, const Decision& decision, TimePoint now);

}  // namespace lockstep::launch
