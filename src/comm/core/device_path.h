// SPDX-License-Identifier: Apache-2.0
// Runs the collectives of a group's device tensors. The transport carries the tensors, the queue of the host's backend
// compares the ranks' calls, and a watch finds late and dead ranks. Calling a collective never waits for a GPU.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "comm/core/device_backend.h"
#include "comm/core/device_watch.h"
#include "comm/core/operation_queue.h"
#include "lockstep/base/awake_clock.h"
#include "lockstep/comm/work.h"

namespace lockstep::comm {

class DevicePath {
 public:
  /// `queue` is the queue of the group's host backend; null in a world of one.
  DevicePath(std::unique_ptr<DeviceBackend> transport, std::shared_ptr<OperationQueue> queue, World world,
             std::chrono::milliseconds timeout);
  ~DevicePath();
  DevicePath(const DevicePath&) = delete;
  DevicePath& operator=(const DevicePath&) = delete;

  [[nodiscard]] std::string name() const { return transport_->name(); }

  /// Returns true if the transport can carry these tensors. Either tensor may be undefined.
  [[nodiscard]] bool takes(const Collective& collective, const at::Tensor& input, const at::Tensor& output) const;

  /// Enqueues a collective. The Work's wait() makes the current stream wait, not the thread. While that stream is being
  /// recorded, the hosts do not compare the call and the watch ignores it: replay() does both.
  /// Throws: the group's failure.
  [[nodiscard]] Work submit(Collective collective, const at::Tensor& input, const at::Tensor& output);

  /// Implements replay_step().
  void replay(std::uint64_t recorded, const std::function<void()>& launch);

  /// Throws: the group's failure. If it does not throw, data that the host has already read from the device are
  /// complete.
  /// Blocks: no. Thread-safe: yes.
  void check() { watch_->check(AwakeClock::instance().now()); }

  void abort(const std::string& reason) noexcept;

  /// Closes the path; call it before the queue is closed. With `orderly`, operations under way get a bounded time to
  /// end, during which they are still watched; the rest are aborted.
  void close(bool orderly) noexcept;

 private:
  void watch(DeviceWatch::Entry& entry, const std::function<std::shared_ptr<DeviceEvent>()>& enqueue);
  void meet(DeviceWatch::Entry& entry);
  [[nodiscard]] bool is_idle() const;
  void fail(const std::exception_ptr& error) noexcept;
  void abort_transport() noexcept;

  const std::shared_ptr<DeviceBackend> transport_;  ///< shared with a thread that aborts it
  const std::shared_ptr<OperationQueue> queue_;
  const std::chrono::milliseconds timeout_;
  std::mutex order_;                         ///< held while a call is passed to the queue and to the transport
  mutable std::mutex mutex_;                 ///< guards the members below
  std::shared_ptr<Operation> last_meeting_;  ///< the newest comparison of calls; null if there was none
  std::shared_ptr<DeviceWatch> watch_;       ///< shared with the operations, to which it reports failures
};

}  // namespace lockstep::comm
