// SPDX-License-Identifier: Apache-2.0
// Looks after the device collectives that are under way. A GPU waits for a dead peer for ever and tells nobody; the
// ranks' hosts compare what they call meanwhile (the meeting), so that it is known whom a collective waits for.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/Tensor.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "comm/core/device_backend.h"
#include "comm/core/failure.h"
#include "comm/core/operation.h"

namespace lockstep::comm {

class DeviceWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// What it asks and tells. Called from any thread that looks.
  struct Hooks {
    std::function<std::optional<std::string>()> problem;    ///< the transport's own account
    std::function<void(const Collective&)> check_group;     ///< throws what the group has failed with
    std::function<void(const std::exception_ptr&)> failed;  ///< once, when failure() says it: ends what is under way
  };

  /// A collective under way. `meeting`: the comparison of all ranks' calls; none in a world of one.
  struct Entry {
    std::shared_ptr<DeviceEvent> event;
    std::shared_ptr<Operation> meeting;
    Collective collective;  ///< with its deadline
    std::array<at::Tensor, 2> tensors;
  };

  DeviceWatch(World world, Hooks hooks) : world_(std::move(world)), hooks_(std::move(hooks)) {}
  ~DeviceWatch();
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  /// Starts the thread; once. Without it look() is called by hand.
  void start();
  void add(Entry entry);
  /// Ends the thread; nothing is watched any more.
  void stop() noexcept;

  /// One look at everything under way. Returns: how many are left. Thread-safe: yes.
  std::size_t look(Time now);

  /// Looks now, and throws what it has found. Results that were read before it returned are whole. Thread-safe: yes.
  void check(Time now);

  /// Stores `error` unless there is a failure already. Only then may anything be ended: a rank that reads an unfinished
  /// result afterwards finds the failure. Returns: whether it is the first. Thread-safe: yes.
  bool note(const std::exception_ptr& error);
  /// As note(), and ends what is under way.
  void fail(const std::exception_ptr& error);

  /// What it found; null while all is well.
  [[nodiscard]] std::exception_ptr failure() const;
  [[nodiscard]] std::size_t under_way() const;

 private:
  struct Finding {
    bool done = false;
    std::exception_ptr error;
  };
  [[nodiscard]] Finding examine(const Entry& entry, Time now) const noexcept;
  [[nodiscard]] std::exception_ptr verdict(const Entry& entry, Time now) const;
  void forget_ended(std::deque<Entry>& ended);
  void run() noexcept;

  const World world_;
  const Hooks hooks_;
  std::mutex looking_;  ///< held for a whole look; taken before mutex_
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> entries_;
  std::exception_ptr failure_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep::comm
