// SPDX-License-Identifier: Apache-2.0
// Turns the store's keys and queues into descriptors that the agent's loop polls.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "lockstep/base/file_system.h"
#include "lockstep/store/store.h"

namespace lockstep::launch {

/// Time limit for reconnecting to a store that was reachable before. A store out of memory closes every connection.
inline constexpr auto kReachAgain = std::chrono::seconds(20);

/// Waits for a key in a separate thread.
class KeyWatcher {
 public:
  KeyWatcher(const StoreAddress& address, std::string key);
  ~KeyWatcher();
  KeyWatcher(const KeyWatcher&) = delete;
  KeyWatcher& operator=(const KeyWatcher&) = delete;

  /// Returns a descriptor that is readable once the key is set or the store is gone.
  [[nodiscard]] int fd() const noexcept { return event_.get(); }

 private:
  std::shared_ptr<Store> store_;
  UniqueFd event_;
  std::thread thread_;
};

/// Reads a queue of the store, from its first entry, in a separate thread.
class QueueReader {
 public:
  QueueReader(const StoreAddress& address, std::string queue);
  ~QueueReader();
  QueueReader(const QueueReader&) = delete;
  QueueReader& operator=(const QueueReader&) = delete;

  /// Returns a descriptor that is readable while take() has an entry, and after wake().
  [[nodiscard]] int fd() const noexcept { return event_.get(); }
  /// Wakes the thread that is waiting on fd(). Thread-safe: yes.
  void wake();
  /// Returns the next entry; none if there is none yet.
  [[nodiscard]] std::optional<std::string> take();

 private:
  void read(const std::string& queue);

  std::shared_ptr<Store> store_;
  UniqueFd event_;  // an eventfd that counts the entries
  std::mutex mutex_;
  std::deque<std::string> entries_;
  std::thread thread_;
};

}  // namespace lockstep::launch
