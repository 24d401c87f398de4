// SPDX-License-Identifier: Apache-2.0
// The coordinator of a group, a thread of the agent that serves the store. It reads the agents' events, uses group.h to
// decide what to do, and sends each agent its orders.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "launch/nodes/group.h"
#include "lockstep/store/store.h"

namespace lockstep::launch {

struct CoordinatorSpec {
  StoreAddress address;
  GroupOptions options;
  std::string serving_id;                                          ///< id of the agent in this process
  std::function<std::uint16_t()> free_port = {};                   ///< finds a port for programs with their own store
  std::function<void(const std::string& prefix)> remove_all = {};  ///< removes the keys with a prefix from the store
  std::function<void()> on_failure = {};  ///< called by its thread when rethrow_failure() has something to throw
};

/// Its thread lives until the coordinator is destroyed. Thread-safe: yes.
class Coordinator {
 public:
  /// Connects to the store. Throws: anything connect_store() throws; ResourceError.
  explicit Coordinator(CoordinatorSpec spec);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  /// Blocks: until every other node has left, or `patience` has passed.
  void wait_until_alone(std::chrono::milliseconds patience);

  /// Throws the exception of the coordinator's thread if it ran out of memory and no longer makes decisions.
  void rethrow_failure();

 private:
  void run();
  void serve();
  void take_events();
  void see_stops();
  void look(TimePoint now);
  void act(const Decision& decision, TimePoint now);
  void send(const Decision& decision);
  void remove_read(const std::map<std::string, std::int64_t>& next);
  Order order_of(const Decision& decision);
  void observe();
  void observe_replicas_of(const std::string& prefix);

  const CoordinatorSpec spec_;
  const std::string nonce_;  ///< part of the keys of its rounds
  std::shared_ptr<Store> store_;
  GroupState state_;
  std::int64_t next_event_ = 1;
  TimePoint next_ = TimePoint::max();
  TimePoint::duration behind_{0};  ///< how far AwakeClock was behind at the last comparison
  std::string present_;
  struct Orders {
    std::int64_t removed = 0;  ///< number of removed orders
    std::int64_t run = 0;      ///< number of the last order that starts a round
  };
  std::map<std::string, Orders> orders_;  ///< orders to the agents of the current round

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t others_ = 0;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace lockstep::launch
