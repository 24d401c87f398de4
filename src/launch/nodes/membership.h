// SPDX-License-Identifier: Apache-2.0
// An agent's membership in the group of nodes: the agent serves or finds the store, joins, receives orders, and reports
// how its ranks ended.
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

/// The facts about the job that an agent has from earlier rounds.
struct History {
  int last_round = -1;
  int restarts = 0;
  int max_world_size = 0;
  std::vector<std::string> peers = {};  ///< hosts of the last round
};

/// An agent's part in one round.
struct Round {
  int number = 0;                 ///< how many times the ranks have been started before
  int restarts = 0;               ///< restarts used up, out of --max-restarts
  int max_world_size = 0;         ///< maximum number of ranks of the job
  int min_world_size = 0;         ///< minimum number of ranks with which an elastic job can continue; else 0
  Place place = {};               ///< place of local rank 0
  std::uint16_t master_port = 0;  ///< free port on node 0, for programs that create their own store
  std::string keys = {};          ///< prefix of the round's keys in the store
  std::vector<std::string> hosts = {};
};

/// An agent's membership. Owned by the agent's thread.
class Membership {
 public:
  /// Serves the store, or connects to it, waiting up to LOCKSTEP_TIMEOUT, and then joins the group. `is_asked_to_end`,
  /// called about once a second, may end the wait. Throws: UsageError (busy port, wrong token); TimeoutError if no
  /// store answers.
  Membership(const AgentOptions& options, const History& history, const std::function<bool()>& is_asked_to_end);
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  [[nodiscard]] const StoreAddress& address() const { return address_; }
  /// Returns a round's part of the store.
  [[nodiscard]] std::shared_ptr<Store> store_of(const Round& round) const;
  [[nodiscard]] const std::string& run_id() const { return run_id_; }

  /// Returns a descriptor that is readable when take_order() has something to return or to throw.
  [[nodiscard]] int orders_fd() const { return orders_->fd(); }
  /// Returns the next order, if there is one. Throws: the error that ended the coordinator, if it is in this process.
  [[nodiscard]] std::optional<Order> take_order();
  /// Returns a descriptor that is readable when the store is lost.
  [[nodiscard]] int loss_fd() const { return presence_ ? presence_->fd() : -1; }
  /// Returns the record of node 0 if the store is lost.
  [[nodiscard]] std::optional<FailureRecord> lost() const;

  /// Returns this agent's part in the round that the order (a kRun) starts; none if it has no part.
  [[nodiscard]] std::optional<Round> round_of(const Order& order) const;
  /// Reports how the ranks ended. Sends nothing if the store is gone, since its heartbeat connection reports the loss.
  void report(NodeEnd end);
  /// Returns the names of the nodes that the group is waiting for.
  [[nodiscard]] std::string missing() const;
  /// Leaves the group. The agent that serves the store waits until the others have left, or `patience` has passed.
  void leave(int signal, std::chrono::milliseconds patience) noexcept;

 private:
  void serve_or_connect(const std::function<bool()>& is_asked_to_end);
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
  bool has_left_ = false;  ///< this agent has left, and the coordinator knows
};

}  // namespace lockstep::launch
