// SPDX-License-Identifier: Apache-2.0
// Lets nodes publish in the store that one of their ranks is doing long work that ranks on other nodes are waiting for.
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

/// A link to the other nodes. Its thread connects to the store on the first publish() or ask(), and uses the store only
/// while these functions are being called. Neither these functions nor the constructor block, so the agent still
/// notices if the store is lost. Thread-safe: yes.
class LongWorkLink {
 public:
  LongWorkLink(StoreAddress address, std::string key);
  ~LongWorkLink();
  LongWorkLink(const LongWorkLink&) = delete;
  LongWorkLink& operator=(const LongWorkLink&) = delete;

  /// Announces that a rank of this node is in a long-running operation. Call it repeatedly while the operation lasts.
  void publish();
  /// Returns true if another node has recently announced a long-running operation. An announcement becomes known within
  /// a second.
  [[nodiscard]] bool ask(TimePoint now);

 private:
  void loop();
  void talk(bool publish);
  Store& store();

  const StoreAddress address_;
  const std::string key_;
  std::mutex mutex_;
  std::shared_ptr<Store> store_;  // null before the first call
  std::condition_variable changed_;
  bool wants_publish_ = false;
  bool wants_answer_ = false;
  bool is_closed_ = false;
  AwakeTime awake_{std::chrono::seconds(1)};  // read about once a second
  std::optional<TimePoint> heard_;            // time of the last change, according to awake_
  std::optional<std::string> last_;           // used by the thread: the key's value when last checked
  int beats_ = 0;                             // used by the thread
  std::thread thread_;
};

}  // namespace lockstep::launch
