// SPDX-License-Identifier: Apache-2.0
// Nodes inform each other through the store that one of their ranks does long work, for which the others' ranks wait.
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

/// Its thread connects to the store at the first publish() or ask(), and uses it only while one of the two is called.
/// Thread-safe: yes. Neither call blocks, nor does the constructor: the agent must notice meanwhile if the store is
/// lost.
class LongWorkLink {
 public:
  LongWorkLink(StoreAddress address, std::string key);
  ~LongWorkLink();
  LongWorkLink(const LongWorkLink&) = delete;
  LongWorkLink& operator=(const LongWorkLink&) = delete;

  /// A rank of this node does long work; call it again and again while it does.
  void publish();
  /// Returns true if another node has published that of late. It becomes known within a second.
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
  AwakeTime awake_{std::chrono::seconds(1)};  // about as often as it is read
  std::optional<TimePoint> heard_;            // as awake_ counts
  std::optional<std::string> last_;           // the thread's: the key's value when it looked last
  int beats_ = 0;                             // the thread's
  std::thread thread_;
};

}  // namespace lockstep::launch
