// SPDX-License-Identifier: Apache-2.0
// An agent's place in the group of nodes: it serves or finds the store, joins, gets orders and tells how its ranks end.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/nodes/blame.h"
#include "launch/nodes/coordinator.h"
#include "launch/nodes/key_watcher.h"
#include "launch/nodes/messages.h"
#include "launch/nodes/place.h"
#include "lockstep/launch/agent.h"
#include "lockstep/store/presence.h"
#include "lockstep/store/store.h"

namespace lockstep::launch {

/// What an agent knows of the job from earlier rounds.
struct History {
  int last_round = -1;
  int restarts = 0;
  int max_world_size = 0;
  std::vector<std::string> peers = {};  ///< the hosts of the last round
};

/// One round as an agent sees it.
struct Round {
  int number = 0;                 ///< from 0: how often the ranks were started before
  int restarts = 0;               ///< how many of --max-restarts are used up
  int max_world_size = 0;         ///< ranks that the job may have at most
  int min_world_size = 0;         ///< the fewest ranks with which a range goes on; 0: no range
  Place place = {};               ///< of local rank 0
  std::uint16_t master_port = 0;  ///< free on node 0, for programs that make a store of their own
  std::string keys = {};          ///< what its keys in the store begin with
  std::vector<std::string> hosts = {};
};

/// Belongs to the agent's thread.
class Membership {
 public:
  /// Serves the store, or connects to it and waits up to LOCKSTEP_TIMEOUT for that; about once a second
  /// `is_told_to_end` may end the wait. Then joins. Throws: UsageError (busy port, wrong token); TimeoutError where
  /// nobody serves.
  Membership(const AgentOptions& options, const History& history, const std::function<bool()>& is_told_to_end);
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  [[nodiscard]] const StoreAddress& address() const { return address_; }
  /// The part of the store that belongs to a round.
  [[nodiscard]] std::shared_ptr<Store> store_of(const Round& round) const;
  [[nodiscard]] const std::string& run_id() const { return run_id_; }

  /// Readable when take_order() has something to return, or to throw.
  [[nodiscard]] int orders_fd() const { return orders_->fd(); }
  /// Throws: what ended the coordinator, where this agent has it.
  [[nodiscard]] std::optional<Order> take_order();
  /// Readable when the store is lost.
  [[nodiscard]] int loss_fd() const { return presence_ ? presence_->fd() : -1; }
  /// The store is lost: node 0, as far as this agent can tell.
  [[nodiscard]] std::optional<FailureRecord> lost() const;

  /// This agent's part in the round of an order kRun; empty where it has none.
  [[nodiscard]] std::optional<Round> round_of(const Order& order) const;
  /// Nothing where the store is gone: its heartbeat says so.
  void report(NodeEnd end);
  /// Says whom the group waits for.
  [[nodiscard]] std::string missing() const;
  /// Leaves the group. The agent that serves the store waits until the others have left, or `patience` is over.
  void leave(int signal, std::chrono::milliseconds patience) noexcept;

 private:
  void serve_or_connect(const std::function<bool()>& is_told_to_end);
  void coordinate();

  const AgentOptions& options_;
  const std::string id_;
  StoreAddress address_;
  std::string run_id_;
  std::chrono::milliseconds silence_;
  std::unique_ptr<StoreServer> server_;
  std::shared_ptr<Store> store_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<QueueReader> orders_;
  std::unique_ptr<Presence> presence_;
  bool has_left_ = false;  ///< and the coordinator knows it
};

}  // namespace lockstep::launch
