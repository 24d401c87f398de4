// SPDX-License-Identifier: Apache-2.0
#include "launch/nodes/group.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <set>
#include <utility>

#include "launch/nodes/members.h"
#include "lockstep/base/error.h"
#include "lockstep/base/invariant.h"
#include "lockstep/base/text.h"
#include "lockstep/flight/verdict.h"
#include "lockstep/launch/restart.h"

namespace lockstep::launch {
namespace {

using Phase = GroupNode::Phase;

// A program that counts its checkpoints reports the first count within this time after the start of its round.
constexpr auto kAnnounceTime = std::chrono::seconds(30);
constexpr std::size_t kMostSpares = 1000;

GroupNode* find(GroupState& state, const std::string& id) {
  const auto found =
      std::find_if(state.nodes.begin(), state.nodes.end(), [&](const GroupNode& node) { return node.info.id == id; });
  return found == state.nodes.end() ? nullptr : &*found;
}

std::vector<std::string> ids_of(const Nodes& nodes) {
  std::vector<std::string> ids;
  for (const GroupNode* node : nodes) ids.push_back(node->info.id);
  return ids;
}

std::vector<std::string> all_ids(const GroupState& state) {
  std::vector<std::string> ids;
  for (const GroupNode& node : state.nodes) ids.push_back(node.info.id);
  return ids;
}

std::string shown_size(int min_nodes, int max_nodes) {
  return min_nodes == max_nodes ? std::to_string(max_nodes) : fmt::format("{}:{}", min_nodes, max_nodes);
}

NodeName name_of(const GroupNode& node) {
  return {node.node_rank, node.info.host, node.first_rank, node.info.processes};
}

// --- events ---

void join(GroupState& state, const Event& event, TimePoint now) {
  const auto& gone = state.lost_before;
  const bool is_gone = std::find(gone.begin(), gone.end(), event.node.id) != gone.end();
  if (event.node.id.empty() || is_gone || find(state, event.node.id) != nullptr) return;
  state.nodes.push_back({.info = event.node, .joined = now});
  state.last_join = now;
  if (state.is_running) return;
  // A restarted coordinator learns the job's progress from the nodes.
  state.round = std::max(state.round, event.node.last_round);
  state.restarts = std::max(state.restarts, event.node.restarts);
  state.max_world_size = std::max(state.max_world_size, event.node.max_world_size);
  if (state.hosts.empty()) state.hosts = event.node.peers;
}

void remove(GroupState& state, const std::string& id) {
  std::erase_if(state.nodes, [&](const GroupNode& node) { return node.info.id == id; });
}

const GroupNode* server_of_round(const GroupState& state) {
  const auto found = std::find_if(state.nodes.begin(), state.nodes.end(), [](const GroupNode& node) {
    return node.is_serving && node.phase != Phase::kWaiting;
  });
  return found == state.nodes.end() ? nullptr : &*found;
}

// Returns true if this process was stopped for so long that other nodes, hearing no heartbeat, gave up on it.
bool was_stopped(const GroupState& state, TimePoint now, const GroupOptions& options) {
  return state.stopped_for >= options.silence / 2 && now - state.stopped_until <= 3 * options.silence;
}

void blame_server(GroupState& state, const GroupNode& server, FailureRecord record) {
  state.lost = std::move(record);
  state.lost_ranks = server.info.processes;
  state.left.reset();
}

// Remembers an agent whose loss is read before its join: events from its two connections may arrive out of order.
void note_lost_before(GroupState& state, const std::string& id) {
  state.lost_before.push_back(id);
  if (state.lost_before.size() > kMostSpares) state.lost_before.erase(state.lost_before.begin());
}

void lose(GroupState& state, const Event& event, TimePoint now, const GroupOptions& options) {
  const GroupNode* node = find(state, event.node.id);
  if (node == nullptr) return note_lost_before(state, event.node.id);
  const bool is_news = state.is_running && node->phase != Phase::kWaiting && !state.lost;
  if (is_news) {
    state.lost = lost_node(name_of(*node), event.why, options.silence);
    state.lost_ranks = node->info.processes;
    state.left = event.why == "closed" ? std::optional(name_of(*node)) : std::nullopt;
    const GroupNode* server = server_of_round(state);
    if (server != nullptr && was_stopped(state, now, options)) {
      blame_server(state, *server, given_up(name_of(*server), name_of(*node), state.stopped_for));
    }
  }
  remove(state, event.node.id);
}

// Handles an agent that rejoins and remembers earlier rounds: it lost the store, although the store did not lose it.
void blame_unreached_server(GroupState& state) {
  const auto is_back = [&](const GroupNode& node) {
    return node.phase == Phase::kWaiting && node.info.last_round >= 0 && node.info.host == state.left->host;
  };
  if (!state.lost || !state.left || std::none_of(state.nodes.begin(), state.nodes.end(), is_back)) return;
  const GroupNode* server = server_of_round(state);
  if (server != nullptr) blame_server(state, *server, unreachable_server(name_of(*server), *state.left));
}

void leave(GroupState& state, const Event& event) {
  GroupNode* node = find(state, event.node.id);
  if (node == nullptr) return;
  if (event.signal != 0 && (node->is_serving || node->phase != Phase::kWaiting)) state.left_by_signal = event.signal;
  if (!node->is_serving) return remove(state, event.node.id);
  if (event.signal != 0) node->end.interrupted_by = event.signal;  // it leaves last
}

void end(GroupState& state, const Event& event) {
  GroupNode* node = find(state, event.node.id);
  if (node == nullptr || node->phase != Phase::kRunning || event.end.round != state.round) return;
  node->phase = Phase::kEnded;
  node->end = event.end;
  // If one rank is asked to leave, all ranks leave. There was no request here: the agent stopped its ranks itself.
  const GroupNode* server = server_of_round(state);
  if (event.end.has_lost_store && event.end.left_by_request && server != nullptr && server != node && !state.lost) {
    blame_server(state, *server, unreachable_server(name_of(*server), name_of(*node)));
  }
}

// --- a group that is idle ---

Decision refuse(const GroupNode& node, std::string message, std::string hint) {
  return {.kind = Decision::Kind::kRefuse,
          .reason = message,
          .ids = {node.info.id},
          .cause = FailureRecord{.type = "UsageError", .message = std::move(message), .hint = std::move(hint)}};
}

std::optional<Decision> refuse_other_sizes(const GroupState& state, const GroupOptions& options) {
  for (const GroupNode& node : state.nodes) {
    if (node.info.min_nodes == options.min_nodes && node.info.max_nodes == options.max_nodes) continue;
    const std::string name = node.info.wish >= 0 ? fmt::format("node {}", node.info.wish) : node.info.host;
    return refuse(node,
                  fmt::format("{} was started with --nnodes {}, but node 0 with {}", name,
                              shown_size(node.info.min_nodes, node.info.max_nodes),
                              shown_size(options.min_nodes, options.max_nodes)),
                  "pass the same --nnodes on every node");
  }
  return std::nullopt;
}

Decision refuse_twice(const GroupNode& node) {
  return refuse(node, fmt::format("two agents have --node-rank {}", node.info.wish),
                "use a different --node-rank on every node, from 0 to nnodes - 1");
}

// Rejects nodes beyond a limit: waiting nodes cost memory, and a process with the token could join over and over.
std::optional<Decision> refuse_crowd(const GroupState& state, const GroupOptions& options) {
  if (state.nodes.size() <= static_cast<std::size_t>(options.max_nodes) + kMostSpares) return std::nullopt;
  const GroupNode& newest = state.nodes.back();
  return refuse(newest,
                fmt::format("{} nodes have already joined a group of {}", state.nodes.size() - 1,
                            shown_size(options.min_nodes, options.max_nodes)),
                "find out which other nodes have the token of this run, and start fewer nodes");
}

std::optional<Decision> refuse_same_wishes(const Nodes& waiting, const GroupOptions& options) {
  std::set<int> taken;
  for (const GroupNode* node : waiting) {
    if (!options.is_range() && node->info.wish >= 0 && !taken.insert(node->info.wish).second) {
      return refuse_twice(*node);
    }
  }
  return std::nullopt;
}

// Returns true if all nodes of the last round are back.
bool all_known_are_back(const Nodes& waiting) {
  std::set<std::string> known;
  std::set<std::string> here;
  for (const GroupNode* node : waiting) {
    known.insert(node->info.peers.begin(), node->info.peers.end());
    here.insert(node->info.host);
  }
  return !known.empty() && std::includes(here.begin(), here.end(), known.begin(), known.end());
}

// Rejects a host that computed wrong numbers, even if its agent is restarted.
std::optional<Decision> refuse_excluded(const GroupState& state) {
  for (const GroupNode* node : nodes_in(state, Phase::kWaiting)) {
    for (const ExcludedNode& excluded : state.excluded) {
      if (node->info.id != excluded.id && node->info.host != excluded.host) continue;
      Decision refusal = refuse(*node, fmt::format("{} is excluded: {}", node->info.host, excluded.why),
                                "test the memory and processor of that node; a new job will accept it again");
      refusal.cause->type = "CorruptionError";
      return refusal;
    }
  }
  return std::nullopt;
}

Decision give_up(const GroupState& state, const GroupOptions& options) {
  const std::string limit = text::duration(Seconds(options.join_timeout).count());
  const std::string text = fmt::format("{} did not join within {}", missing_text(state, options), limit);
  if (state.lost) {
    FailureRecord cause = *state.lost;
    cause.message += "; " + text;
    return {.kind = Decision::Kind::kEnd,
            .reason = text,
            .ids = all_ids(state),
            .cause = cause,
            .code = static_cast<int>(ExitCode::kPeer)};
  }
  return {.kind = Decision::Kind::kRefuse,
          .reason = text,
          .ids = all_ids(state),
          .cause = FailureRecord{.kind = FailureKind::kTimeout,
                                 .type = "TimeoutError",
                                 .message = text,
                                 .hint = "start the same command on the missing nodes"}};
}

Decision end_by_signal(const GroupState& state, int number) {
  return {.kind = Decision::Kind::kEnd,
          .reason = "the job was asked to stop",
          .ids = all_ids(state),
          .code = 128 + number,
          .is_graceful = true};
}

Decision decide_idle(TimePoint now, const GroupState& state, const GroupOptions& options) {
  if (state.left_by_signal != 0) return end_by_signal(state, state.left_by_signal);
  const auto waiting = nodes_in(state, Phase::kWaiting);
  if (const auto refusal = refuse_same_wishes(waiting, options)) return *refusal;
  const auto count = static_cast<int>(waiting.size());
  const auto has_server = std::any_of(waiting.begin(), waiting.end(), [](auto* node) { return node->is_serving; });
  const bool is_full = count >= options.max_nodes;
  const TimePoint last_call = state.last_join + options.last_call;
  const bool is_enough = count >= options.min_nodes && has_server;
  const bool goes_on = state.round >= 0 && (state.round_began != TimePoint() || all_known_are_back(waiting));
  if (is_enough && (is_full || goes_on || now >= last_call)) {
    const Nodes members = members_of_next_round(state, options);
    return {.kind = Decision::Kind::kStart,
            .reason = text::counted(static_cast<int>(members.size()), "node"),
            .ids = ids_of(members),
            .max_world_size = most_ranks(members, options),
            .min_world_size = fewest_ranks(members, options)};
  }
  const TimePoint end = state.idle_since + options.join_timeout;
  if (now >= end && !is_enough) return give_up(state, options);
  return {.next = is_enough ? last_call : end};
}

// --- a round that runs ---

Decision stop(const GroupState& state, std::string reason, const std::optional<FailureRecord>& cause) {
  return {.kind = Decision::Kind::kStop,
          .reason = std::move(reason),
          .ids = ids_of(nodes_in(state, Phase::kRunning)),
          .cause = cause};
}

// Returns the node with the rank to blame; nullptr if no rank failed on its own.
const GroupNode* culprit_of(const Nodes& ended, const std::optional<FailureRecord>& claim) {
  Nodes failed;
  std::vector<Suspect> suspects;
  for (const GroupNode* node : ended) {
    if (!node->end.cause) continue;
    failed.push_back(node);
    suspects.push_back({.rank = node->end.cause->rank,
                        .is_late = node->end.cause->kind == FailureKind::kHang,
                        .has_own_code = true,
                        .is_consequence = node->end.is_consequence});
  }
  const auto found = blame(suspects, claim);
  return found ? failed[*found] : nullptr;
}

Decision again(const GroupState& state, std::string reason, const std::optional<FailureRecord>& cause, bool counts) {
  return {.kind = Decision::Kind::kAgain,
          .reason = std::move(reason),
          .ids = ids_of(nodes_in(state, Phase::kEnded)),
          .cause = cause,
          .is_restart = counts};
}

Decision finish(const GroupState& state, std::string reason, const std::optional<FailureRecord>& cause, int code) {
  return {
      .kind = Decision::Kind::kEnd, .reason = std::move(reason), .ids = all_ids(state), .cause = cause, .code = code};
}

// Ends the job after all ranks left at one step: after --max-time or a signal to one of them.
Decision finish_on_request(const GroupState& state, const FailureRecord& first, int code) {
  Decision end = finish(state,
                        fmt::format("the ranks stopped on request (by a signal or --max-time), rank {} on {} first",
                                    first.rank, first.host),
                        first, code);
  end.is_graceful = true;
  return end;
}

Decision conclude_loss(const GroupState& state, const GroupOptions& options) {
  if (options.is_range()) return again(state, "the remaining nodes continue", *state.lost, false);
  const auto decision = decide_restart({.restarts_done = state.restarts, .max_restarts = options.max_restarts});
  if (decision.restart) return again(state, decision.reason, *state.lost, true);
  return finish(state, decision.reason, *state.lost, static_cast<int>(ExitCode::kPeer));
}

// Returns the record of a node that left too early: its ranks all succeeded, and every failure names another rank.
std::optional<FailureRecord> early_leaver(const GroupState& state, const GroupNode* culprit) {
  if (culprit == nullptr || !culprit->end.is_consequence) return std::nullopt;
  for (const GroupNode& node : state.nodes) {
    if (node.phase != Phase::kEnded || !node.end.is_success) continue;
    return FailureRecord{
        .kind = FailureKind::kHang,
        .type = "PeerError",
        .message = fmt::format("{} on {} left: its program has ended{}, but other ranks still called collectives",
                               ranks_text(name_of(node)), node.info.host, node.end.place),
        .hint = flight::kLeftHint,
        .rank = node.first_rank,
        .host = node.info.host};
  }
  return std::nullopt;
}

// Returns the cause that the node has reported. The text names the node if the cause concerns a rank of another node.
FailureRecord cause_of(const GroupNode& node) {
  FailureRecord cause = *node.end.cause;
  const bool is_of_it = cause.rank >= node.first_rank && cause.rank < node.first_rank + node.info.processes;
  if (!is_of_it && cause.rank >= 0) {
    cause.message += fmt::format(" (according to node {} on {})", node.node_rank, node.info.host);
  }
  return cause;
}

// Returns the node whose rank computed wrong numbers, if the group can continue without it: the job is elastic
// (--nnodes MIN:MAX), and the node does not serve the store.
std::optional<ExcludedNode> node_that_erred(const GroupState& state, const GroupOptions& options,
                                            const FailureRecord& cause) {
  if (!options.is_range() || cause.type != "CorruptionError" || cause.erred < 0) return std::nullopt;
  for (const GroupNode& node : state.nodes) {
    const bool has_rank = cause.erred >= node.first_rank && cause.erred < node.first_rank + node.info.processes;
    if (node.phase != Phase::kEnded || !has_rank || node.is_serving) continue;
    const auto is_namesake = [&](const GroupNode& other) { return other.info.host == node.info.host; };
    const bool is_alone = std::count_if(state.nodes.begin(), state.nodes.end(), is_namesake) == 1;
    return ExcludedNode{.id = node.info.id,
                        .host = is_alone ? node.info.host : "",
                        .why = fmt::format("its rank {} computed wrong numbers", cause.erred)};
  }
  return std::nullopt;
}

Decision conclude_failure(const GroupState& state, const GroupOptions& options, const GroupNode* culprit) {
  FailureRecord cause = culprit != nullptr ? cause_of(*culprit) : state.claim.value_or(FailureRecord{});
  if (const auto leaver = early_leaver(state, culprit)) cause = *leaver;
  const int said = cause.type.empty() ? static_cast<int>(ExitCode::kPeer) : exit_code_of(cause);
  const int code = culprit != nullptr && culprit->end.code != 0 ? culprit->end.code : said;
  if (auto erred = node_that_erred(state, options, cause)) {
    Decision without = again(state, "the remaining nodes continue", cause, false);
    without.excluded = std::move(erred);
    return without;
  }
  const auto decision = decide_restart({.error_type = cause.type,
                                        .error_text = cause.message,
                                        .restarts_done = state.restarts,
                                        .max_restarts = options.max_restarts});
  if (decision.restart) return again(state, decision.reason, cause, true);
  return finish(state, options.max_restarts > 0 ? "no restart: " + decision.reason : "", cause, code);
}

// Concludes a round in which a node was asked to leave if a rank also failed with an error that would recur.
std::optional<Decision> conclude_recurring(const GroupState& state, const GroupOptions& options,
                                           const GroupNode* culprit) {
  const bool is_own = culprit != nullptr && !culprit->end.is_consequence && !culprit->end.left_by_request;
  if (is_own && would_recur(*culprit->end.cause)) return conclude_failure(state, options, culprit);
  const bool is_claimed = state.claim && would_recur(*state.claim);  // the node of that rank may have left
  return is_claimed ? std::optional(conclude_failure(state, options, nullptr)) : std::nullopt;
}

// Concludes a round in which a node was asked to leave, as before a preemption: the others may continue without it.
std::optional<Decision> conclude_signal(const GroupState& state, const GroupOptions& options) {
  int number = state.left_by_signal;
  bool ends_all = false;
  for (const GroupNode& node : state.nodes) {
    if (node.phase != Phase::kEnded || node.end.interrupted_by == 0) continue;
    number = node.end.interrupted_by;
    ends_all = ends_all || node.is_serving;
  }
  if (number == 0) return std::nullopt;
  if (options.is_range() && number == SIGTERM && !ends_all) {
    return again(state, "a node received SIGTERM and leaves; the others continue", std::nullopt, false);
  }
  return end_by_signal(state, number);
}

// Concludes a round: every node's ranks have ended, or the node is lost.
Decision conclude(const GroupState& state, const GroupOptions& options) {
  const auto ended = nodes_in(state, Phase::kEnded);
  const GroupNode* culprit = culprit_of(ended, state.claim);
  const auto signal = conclude_signal(state, options);
  if (signal) return conclude_recurring(state, options, culprit).value_or(*signal);
  const auto is_success = [](auto* node) { return node->end.is_success; };
  if (!state.lost && std::all_of(ended.begin(), ended.end(), is_success)) return finish(state, "", std::nullopt, 0);
  const bool by_request = culprit == nullptr || culprit->end.left_by_request;
  if (state.lost) {
    const auto claim =
        culprit != nullptr && !culprit->end.is_consequence && !by_request ? culprit->end.cause : std::nullopt;
    if (blames_node(*state.lost, state.lost_ranks, claim ? claim : state.claim, options.silence)) {
      return conclude_loss(state, options);
    }
    // A rank of the lost node may have published why it failed; reports from ranks elsewhere add nothing.
    if (!claim && state.claim) return conclude_failure(state, options, nullptr);
  }
  if (by_request && has_idle_ranks(state, options)) {
    return again(state,
                 fmt::format("the run has {} for {}: nodes without work wait as spares",
                             text::counted(static_cast<int>(*state.replicas), "replica"),
                             text::counted(ranks_of(nodes_of_round(state)), "rank")),
                 std::nullopt, false);
  }
  if (by_request && state.stops_for_joiners) return again(state, "a node joins", std::nullopt, false);
  if (by_request && culprit != nullptr) {
    return finish_on_request(state, *culprit->end.cause, culprit->end.code);
  }
  return conclude_failure(state, options, culprit);
}

// Returns the decision to stop a round whose ranks are still running; none if the round continues.
std::optional<Decision> stop_of(const GroupState& state) {
  if (state.lost) return stop(state, state.lost->message, *state.lost);
  if (state.left_by_signal != 0) return stop(state, "a node received a signal to stop", std::nullopt);
  for (const GroupNode& node : state.nodes) {
    const bool has_failed = node.phase == Phase::kEnded && !node.end.is_success;
    if (has_failed && !node.end.is_consequence && !node.end.left_by_request) {
      return stop(state, "ranks failed", node.end.cause);
    }
  }
  return std::nullopt;
}

// After a wait, rejects a node that joins a full group of fixed size: it may replace a node that is about to be lost.
std::optional<Decision> refuse_surplus(TimePoint now, const GroupState& state, const GroupOptions& options,
                                       TimePoint& next) {
  if (options.is_range()) return std::nullopt;
  for (const GroupNode* node : nodes_in(state, Phase::kWaiting)) {
    const TimePoint limit = node->joined + 2 * options.silence;
    if (now >= limit) return refuse_twice(*node);
    next = std::min(next, limit);
  }
  return std::nullopt;
}

// Informs a node, once, of why it has to wait while others train.
std::optional<Decision> hold(const GroupState& state, const GroupOptions& options) {
  if (!options.is_range()) return std::nullopt;
  for (const GroupNode* node : nodes_in(state, Phase::kWaiting)) {
    const std::string why = held_text(*node, state, options);
    if (node->held != why) return Decision{.kind = Decision::Kind::kHold, .reason = why, .ids = {node->info.id}};
  }
  return std::nullopt;
}

bool is_time_to_take_in(TimePoint now, const GroupState& state, const GroupOptions& options, TimePoint& next) {
  if (!has_joiners(state, options)) return false;
  if (options.take_in == TakeIn::kAtOnce) return true;
  if (state.saves) return state.saves_before && *state.saves > *state.saves_before;
  next = std::min(next, state.round_began + kAnnounceTime);
  return now >= state.round_began + kAnnounceTime;
}

Decision decide_running(TimePoint now, const GroupState& state, const GroupOptions& options) {
  if (nodes_in(state, Phase::kRunning).empty()) return conclude(state, options);
  Decision wait;
  if (const auto refusal = refuse_surplus(now, state, options, wait.next)) return *refusal;
  if (state.is_stopping) return wait;
  if (auto order = stop_of(state)) return *order;
  if (auto held = hold(state, options)) return *held;
  if (is_time_to_take_in(now, state, options, wait.next)) {
    Decision order = stop(state, "a node joins", std::nullopt);
    order.is_graceful = true;
    return order;
  }
  return wait;
}

// --- carrying out ---

void start(GroupState& state, const Decision& decision, TimePoint now) {
  LOCKSTEP_INVARIANT(!state.is_running && !decision.ids.empty(), "round {} with {} of {} nodes", state.round + 1,
                     decision.ids.size(), state.nodes.size());
  state.is_running = true;
  state.is_stopping = state.stops_for_joiners = false;
  state.lost.reset();
  state.left.reset();
  state.claim.reset();
  state.saves.reset();
  state.saves_before.reset();
  state.round_began = now;
  ++state.round;
  int rank = 0;
  for (std::size_t i = 0; i < decision.ids.size(); ++i) {
    GroupNode* node = find(state, decision.ids[i]);
    if (node == nullptr) continue;
    node->phase = Phase::kRunning;
    node->node_rank = static_cast<int>(i);
    node->first_rank = rank;
    rank += node->info.processes;
    const bool is_known = std::find(state.hosts.begin(), state.hosts.end(), node->info.host) != state.hosts.end();
    if (!is_known) state.hosts.push_back(node->info.host);
  }
  if (state.max_world_size == 0) state.max_world_size = decision.max_world_size;
}

void go_idle(GroupState& state, const Decision& decision, TimePoint now) {
  LOCKSTEP_INVARIANT(state.is_running && nodes_in(state, Phase::kRunning).empty(), "round {} of {} nodes", state.round,
                     state.nodes.size());
  state.is_running = false;
  state.idle_since = now;
  state.left_by_signal = 0;
  state.restarts += decision.is_restart ? 1 : 0;
  if (decision.excluded) state.excluded.push_back(*decision.excluded);
  // A node that was asked to leave has sent its last message.
  std::erase_if(state.nodes,
                [](const GroupNode& node) { return node.phase == Phase::kEnded && node.end.interrupted_by != 0; });
  for (GroupNode& node : state.nodes) node.phase = Phase::kWaiting;
}

}  // namespace

void apply(GroupState& state, const Event& event, TimePoint now, const GroupOptions& options) {
  if (event.kind == Event::Kind::kEnded) return end(state, event);
  if (event.kind == Event::Kind::kLeft) return leave(state, event);
  if (event.kind == Event::Kind::kJoined) join(state, event, now);
  if (event.kind == Event::Kind::kLost) lose(state, event, now, options);
  blame_unreached_server(state);
}

void observe_saves(GroupState& state, std::optional<std::int64_t> saves) {
  state.saves = saves;
  if (saves && !state.saves_before) state.saves_before = saves;
}

void observe_replicas(GroupState& state, std::optional<std::int64_t> replicas) {
  if (replicas) state.replicas = replicas;
}

void observe_stop(GroupState& state, std::chrono::milliseconds time, TimePoint now) {
  state.stopped_for = time;
  state.stopped_until = now;
}

bool has_joiners(const GroupState& state, const GroupOptions& options) {
  return state.is_running && !state.is_stopping && !joiners_of(state, options).empty();
}

Decision decide(TimePoint now, const GroupState& state, const GroupOptions& options) {
  if (state.is_over || state.nodes.empty()) return {};
  if (const auto refusal = refuse_other_sizes(state, options)) return *refusal;
  if (const auto refusal = refuse_crowd(state, options)) return *refusal;
  if (const auto refusal = refuse_excluded(state)) return *refusal;
  return state.is_running ? decide_running(now, state, options) : decide_idle(now, state, options);
}

void carry_out(GroupState& state, const Decision& decision, TimePoint now) {
  LOCKSTEP_INVARIANT(!state.is_over, "decision {} ({}) after the end of round {}", static_cast<int>(decision.kind),
                     decision.reason, state.round);
  if (decision.kind == Decision::Kind::kStart) return start(state, decision, now);
  if (decision.kind == Decision::Kind::kAgain) return go_idle(state, decision, now);
  if (decision.kind == Decision::Kind::kEnd) state.is_over = true;
  if (decision.kind == Decision::Kind::kStop) {
    LOCKSTEP_INVARIANT(state.is_running && !state.is_stopping, "round {} ({})", state.round, decision.reason);
    state.is_stopping = true;
    state.stops_for_joiners = decision.is_graceful;
  }
  if (decision.kind == Decision::Kind::kRefuse) {
    for (const std::string& id : decision.ids) remove(state, id);
  }
  if (decision.kind == Decision::Kind::kHold) {
    for (const std::string& id : decision.ids) {
      if (GroupNode* node = find(state, id)) node->held = decision.reason;
    }
  }
}

}  // namespace lockstep::launch
