// SPDX-License-Identifier: Apache-2.0
// Watches the device collectives under way. A GPU waits for a dead peer forever and does not report it. The hosts
// compare the ranks' calls at the same time (the meeting), so that they know the rank that a collective waits for.
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

  /// The functions that the watch calls, from any thread that runs look().
  struct Hooks {
    std::function<std::optional<std::string>()> problem;    ///< returns the transport's own error
    std::function<void(const Collective&)> check_group;     ///< throws the group's failure
    std::function<void(const std::exception_ptr&)> failed;  ///< called once, when failure() is set, to end operations
                                                            ///< under way
    /// Called, by one thread at a time, when a collective has taken so long that the wait is recorded, and again when
    /// it ends.
    std::function<void(const Collective&, bool ends)> on_long_wait;
    std::chrono::milliseconds naming{0};  ///< how much later than the transport the group may notice a death
  };

  /// A collective under way. `meeting` is the comparison of all ranks' calls; null in a world of one.
  struct Entry {
    std::shared_ptr<DeviceEvent> event;
    std::shared_ptr<Operation> meeting;
    Collective collective;  ///< the call, with its deadline set
    std::array<at::Tensor, 2> tensors;
  };

  DeviceWatch(World world, Hooks hooks) : world_(std::move(world)), hooks_(std::move(hooks)) {}
  ~DeviceWatch();
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  /// Starts the watch's thread; call it once. Without the thread, look() is called directly.
  void start();
  void add(Entry entry);
  /// Ends the thread, and with it the watch.
  void stop() noexcept;

  /// Checks everything under way once, at AwakeClock time `now`. Returns: the number of operations left.
  /// Thread-safe: yes.
  std::size_t look(Time now);

  /// Checks now, and throws the failure, if any. If it returns, results that the host has already read are complete.
  /// Thread-safe: yes.
  void check(Time now);

  /// Returns the group's failure, which names a rank, if it becomes known within Hooks::naming; else `error`.
  /// Thread-safe: yes.
  [[nodiscard]] std::exception_ptr named(const Collective& collective, const std::exception_ptr& error) const noexcept;

  /// Stores `error` unless there is already a failure. Operations may be ended only after that, so that a rank that
  /// reads an unfinished result finds the failure. Returns: true if `error` is the first failure. Thread-safe: yes.
  bool note(const std::exception_ptr& error);
  /// Does the same as note(), and ends operations under way.
  void fail(const std::exception_ptr& error);

  /// Returns the failure; null if there is none.
  [[nodiscard]] std::exception_ptr failure() const;
  [[nodiscard]] std::size_t under_way() const;

 private:
  struct Finding {
    bool done = false;
    std::exception_ptr error;
  };
  [[nodiscard]] Finding examine(const Entry& entry, Time now) const noexcept;
  [[nodiscard]] std::exception_ptr verdict(const Entry& entry, Time now) const;
  void note_wait(const Entry& front, bool done, Time now);
  void forget_ended(std::deque<Entry>& ended);
  void run() noexcept;

  const World world_;
  const Hooks hooks_;
  std::mutex looking_;  ///< held during a whole look(); locked before mutex_
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> entries_;
  std::exception_ptr failure_;
  bool waits_long_ = false;  ///< on_long_wait was called for the first of entries_; guarded by looking_
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep::comm
