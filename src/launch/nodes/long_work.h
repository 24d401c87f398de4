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

/// Its thread uses the store only while publish() or ask() is called. Thread-safe: yes; neither call blocks.
class LongWorkLink {
 public:
  LongWorkLink(const StoreAddress& address, std::string key);
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

  const std::string key_;
  std::shared_ptr<Store> store_;
  std::mutex mutex_;
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
