// SPDX-License-Identifier: Apache-2.0
// Nodes tell each other through the store that one of their ranks does long work, for which the others' ranks wait.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "lockstep/base/awake_clock.h"
#include "lockstep/store/store.h"

namespace lockstep::launch {

/// Its thread uses the store only while one of the two is called, and connects to it then. Thread-safe: yes; neither
/// call blocks, and the constructor does not: the agent has to see meanwhile that the store is lost.
class LongWorkLink {
 public:
  LongWorkLink(StoreAddress address, std::string key);
  ~LongWorkLink();
  LongWorkLink(const LongWorkLink&) = delete;
  LongWorkLink& operator=(const LongWorkLink&) = delete;

  /// A rank of this node does long work; call it again and again while it does.
  void publish();
  /// Returns whether another node has said so of late. It becomes known within a second.
  [[nodiscard]] bool ask(TimePoint now);

 private:
  void loop();
  void talk(bool publish);
  Store& store();

  const StoreAddress address_;
  const std::string key_;
  std::mutex mutex_;
  std::shared_ptr<Store> store_;  // none before the first call
  std::condition_variable changed_;
  bool wants_publish_ = false;
  bool wants_answer_ = false;
  bool is_closed_ = false;
  AwakeTime awake_{std::chrono::seconds(1)};  // about as often it is looked at
  std::optional<TimePoint> heard_;            // as awake_ counts
  std::optional<std::string> last_;           // the thread's: the key's value when it looked last
  int beats_ = 0;                             // the thread's
  std::thread thread_;
};

}  // namespace lockstep::launch
