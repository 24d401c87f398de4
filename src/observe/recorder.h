// SPDX-License-Identifier: Apache-2.0
// Recorder: records calls from libtorch's RecordFunction and from Lockstep's spans, on every thread, while it is on.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/record_function.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/trace.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/view/profile.h"
#include "observe/memory_watch.h"
#include "observe/thread_calls.h"

namespace lockstep::observe {

/// The records to keep in addition to the calls.
struct Recorded {
  bool inputs = false;  ///< the calls' inputs, and for backward nodes the operators that created them
  bool memory = true;   ///< allocations; not possible while Kineto is recording, because libtorch has only one listener
};

/// The only recorder of the process. It is never destroyed, because calls may end after it has stopped.
class Recorder final : public trace::Sink {
 public:
  [[nodiscard]] static Recorder& instance();

  /// Drops earlier records and starts recording. Throws: UsageError if it is already recording.
  void start(const NamedTensors& parameters, const Recorded& recorded = {});
  void stop() noexcept;
  /// Moves the calls that have ended, and their threads, into `profile`. Calls that were open at stop() are skipped.
  void take(view::Profile& profile);

  void begin(const trace::Event& event) noexcept override;
  void end(const trace::Event& event) noexcept override;

  /// The begin and end of an operator, and an allocation, for libtorch's callbacks.
  [[nodiscard]] std::unique_ptr<at::ObserverContext> begin_operator(const at::RecordFunction& function);
  void end_operator(at::ObserverContext* context);
  void add_memory(const void* address, std::int64_t bytes);

 private:
  Recorder() = default;
  [[nodiscard]] ThreadCalls& calls_of_this_thread();

  std::atomic<bool> on_{false};
  std::atomic<int> run_{0};  ///< number of starts; calls from before the latest start are skipped
  std::mutex mutex_;         ///< guards threads_
  std::vector<std::unique_ptr<ThreadCalls>> threads_;
  LayersOfMemory layers_;     ///< changed while off
  bool with_inputs_ = false;  ///< changed while off
  std::vector<at::CallbackHandle> callbacks_;
  std::optional<MemoryWatch> memory_;
};

}  // namespace lockstep::observe
