// SPDX-License-Identifier: Apache-2.0
// A group of nodes with the test's own clock.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "launch/nodes/group.h"

namespace lockstep::launch {
namespace group_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Kind = Decision::Kind;

// A group under test: node "a" serves the store.
class GroupTest : public ::testing::Test {
 protected:
  void use_range(int least, int most) {
    options_.min_nodes = least;
    options_.max_nodes = most;
  }

  /// Gives nodes that join from now on `processes` ranks.
  void have_ranks(int processes) { processes_ = processes; }

  void join(const std::string& name, int wish = -1, const std::vector<std::string>& peers = {}) {
    Event event{.kind = Event::Kind::kJoined};
    event.node = {.id = name,
                  .host = "host-" + name.substr(0, 1),
                  .wish = wish,
                  .processes = processes_,
                  .min_nodes = options_.min_nodes,
                  .max_nodes = options_.max_nodes,
                  .last_round = peers.empty() ? -1 : 4,
                  .peers = peers};
    apply(state_, event, now_, options_);
    for (GroupNode& node : state_.nodes) node.is_serving = node.info.id[0] == 'a';
  }

  void lose(const std::string& name, const std::string& why = "closed") {
    Event event{.kind = Event::Kind::kLost, .why = why};
    event.node.id = name;
    apply(state_, event, now_, options_);
  }

  void leave(const std::string& name, int signal) {
    Event event{.kind = Event::Kind::kLeft, .signal = signal};
    event.node.id = name;
    apply(state_, event, now_, options_);
  }

  void end(const std::string& name, NodeEnd outcome) {
    outcome.round = state_.round;
    Event event{.kind = Event::Kind::kEnded, .end = std::move(outcome)};
    event.node.id = name;
    apply(state_, event, now_, options_);
  }

  // The nodes end because a peer disappeared.
  void end_as_consequence(const std::vector<std::string>& names) {
    for (const auto& name : names) {
      end(name, {.is_consequence = true,
                 .code = 75,
                 .cause = FailureRecord{.kind = FailureKind::kPeer, .type = "PeerError", .rank = rank_of(name)}});
    }
  }

  int rank_of(const std::string& name) const {
    for (const GroupNode& node : state_.nodes) {
      if (node.info.id == name) return node.first_rank;
    }
    return -1;
  }

  // Keeps the replies to waiting nodes in held_.
  Decision next() {
    for (;;) {
      Decision decision = decide(now_, state_, options_);
      carry_out(state_, decision, now_);
      if (decision.kind != Kind::kHold) return decision;
      for (const std::string& id : decision.ids) held_[id] = decision.reason;
    }
  }

  // The nodes end like ranks that were asked to save, or that had nothing to do.
  void end_by_request(const std::vector<std::string>& names) {
    for (const auto& name : names) {
      end(name, {.left_by_request = true, .is_consequence = true, .code = 143, .cause = failure(rank_of(name))});
    }
  }

  // The nodes end with the guard's error, which every rank reports.
  void end_as_corrupt(const std::vector<std::string>& names, int erred) {
    for (const auto& name : names) {
      FailureRecord cause = failure(rank_of(name), "CorruptionError");
      cause.erred = erred;
      end(name, {.code = 77, .cause = cause});
    }
  }

  void wait(milliseconds time) { now_ += time; }

  void start_four() {
    use_range(1, 4);
    for (const char* name : {"a", "b", "c", "d"}) join(name);
    ASSERT_EQ(next().kind, Kind::kStart);
  }

  static FailureRecord failure(int rank, const std::string& type = "") {
    return {.kind = FailureKind::kDied, .type = type, .message = "exit code 3", .rank = rank, .time_ns = 1};
  }

  GroupOptions options_;
  TimePoint now_ = TimePoint() + seconds(1000);
  GroupState state_{now_};
  std::map<std::string, std::string> held_;

 private:
  int processes_ = 1;
};

}  // namespace group_test
}  // namespace lockstep::launch
