// SPDX-License-Identifier: Apache-2.0
// Keys and queues of the store as descriptors that the agent's loop polls.
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

/// The limit for one more connection to a store that was reached before. A store that closes each has no memory for it.
inline constexpr auto kReachAgain = std::chrono::seconds(20);

/// Waits for a key in its own thread.
class KeyWatcher {
 public:
  KeyWatcher(const StoreAddress& address, std::string key);
  ~KeyWatcher();
  KeyWatcher(const KeyWatcher&) = delete;
  KeyWatcher& operator=(const KeyWatcher&) = delete;

  /// Readable once the key is set, or the store gone.
  [[nodiscard]] int fd() const noexcept { return event_.get(); }

 private:
  std::shared_ptr<Store> store_;
  UniqueFd event_;
  std::thread thread_;
};

/// Reads a queue of the store, from its first entry on, in its own thread.
class QueueReader {
 public:
  QueueReader(const StoreAddress& address, std::string queue);
  ~QueueReader();
  QueueReader(const QueueReader&) = delete;
  QueueReader& operator=(const QueueReader&) = delete;

  /// Readable while take() has something to return, and from wake() on.
  [[nodiscard]] int fd() const noexcept { return event_.get(); }
  /// Wakes the thread that waits for fd(). Thread-safe: yes.
  void wake();
  /// Returns the next entry; empty if there is none yet.
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
