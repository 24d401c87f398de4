// SPDX-License-Identifier: Apache-2.0
// One NCCL communicator, which follows NCCL's threading rules.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/core/failure.h"
#include "lockstep/base/awake_clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/nccl_library.h"

namespace lockstep::comm {

/// A function that throws the failure of another rank, if the hosts know of one.
using CheckOfHosts = std::function<void()>;

/// Returns NCCL's functions. The ranks have agreed on NCCL, so the library is loaded.
[[nodiscard]] const nccl::Functions& nccl_calls();

/// A communicator that several threads may use. NCCL allows one thread at a time in a communicator: since 2.26 even
/// ncclCommGetAsyncError completes work that a call has begun. Only ncclCommAbort may be called while another thread is
/// in a call, and nothing else ends a call that is waiting for room in a GPU queue. The communicator is non-blocking,
/// so that no other call waits for peers.
class NcclCommunicator {
 public:
  /// A function that begins an operation.
  using Call = std::function<nccl::Result(nccl::Comm)>;

  /// `timeout` is the time limit for a call.
  explicit NcclCommunicator(std::chrono::milliseconds timeout) : timeout_(timeout) {}
  /// Ends the communicator normally, or aborts it if that takes too long or an exception is in flight. No call may be
  /// under way.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// Connects the world's GPUs; rank 0 publishes NCCL's id in the store. Call it once.
  /// Collective: yes. Blocks: up to the timeout, or until `check` throws.
  /// Throws: the exceptions of `check`; ResourceError with advice, TimeoutError.
  void connect(const World& world, const CheckOfHosts& check);

  /// Makes one call, named `name` in errors, and waits until NCCL has accepted it. Thread-safe: no; but during a call
  /// other threads may call problem() and abort().
  /// Throws: ResourceError with advice, TimeoutError.
  void run(const char* name, const Call& call);
  /// Does the same with several calls that form one operation.
  void run_as_one(const char* name, const std::vector<Call>& calls);

  /// Throws: ResourceError if it was aborted.
  void require_alive() const;
  /// Returns NCCL's error; none while a call is under way, since the call reports its own error. Thread-safe: yes.
  [[nodiscard]] std::optional<std::string> problem();
  /// Ends everything under way, with undefined results. Thread-safe: yes.
  void abort() noexcept;

 private:
  class Visit;
  [[nodiscard]] nccl::UniqueId meet_for_id(const World& world, const CheckOfHosts& check) const;
  [[nodiscard]] bool finalize();
  [[nodiscard]] nccl::Result settle(TimePoint end, const CheckOfHosts& check = nullptr);
  [[nodiscard]] nccl::Result poll();
  void require(nccl::Result result, const char* name);
  [[nodiscard]] ResourceError error_of(const char* name, nccl::Result result);
  [[nodiscard]] std::string error_text(nccl::Result result) const;

  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;  ///< guards the members below; not held during NCCL calls that may block
  std::condition_variable left_;
  nccl::Comm comm_ = nullptr;  ///< null if not connected, aborted or destroyed
  bool is_under_way_ = false;  ///< from the start of a call until NCCL has accepted it
  bool is_inside_ = false;     ///< a thread is inside the NCCL function, which may block
  std::atomic<bool> aborted_{false};
};

}  // namespace lockstep::comm
