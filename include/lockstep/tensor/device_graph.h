// SPDX-License-Identifier: Apache-2.0
// A CUDA graph: GPU work that is recorded once and then launched with a single call.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::tensor {

/// A recording of device work. It holds addresses, not values: each replay reads the inputs again from the same memory.
/// The graph keeps the memory that `work` allocates while it is recorded.
class DeviceGraph {
 public:
  DeviceGraph() = default;
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;
  virtual ~DeviceGraph() = default;

  /// While the result is alive, sends the calling thread's work to the recorded stream, which all recordings of the
  /// process share. That work runs after earlier work on the current stream and before later work. Autograd's gradient
  /// accumulators belong to the stream on which they were created, and a recording must not wait for another stream. So
  /// call enter() before you create objects that keep such nodes, and before the steps that precede the recording.
  /// Blocks: no. Returns: null if there is no such stream.
  [[nodiscard]] virtual std::shared_ptr<void> enter() { return nullptr; }

  /// Runs `work` on the host once and records its device work, without computing it. Call it once per graph.
  /// Blocks: until the device has finished its earlier work.
  /// Throws: the exceptions of `work`, and c10::Error for work that cannot be recorded, such as reading a number back.
  ///         If intact() is then false, the allocator and the random generator still belong to the recording, and this
  ///         process must not compute anything more.
  virtual void record(const std::function<void()>& work) = 0;

  /// Returns true if other threads may query events and allocate on the device during record().
  [[nodiscard]] virtual bool lets_other_threads() const noexcept { return true; }

  /// Returns true if the process may continue to compute after record() has thrown.
  [[nodiscard]] virtual bool intact() const noexcept { return false; }

  /// Runs `work`, and returns the names of the operators that made the host wait for the device ("aten::nonzero"), in
  /// order. Work with such an operator cannot be recorded. It detects the same waits as libtorch's synchronization
  /// debug mode.
  [[nodiscard]] virtual std::vector<std::string> waits(const std::function<void()>& work) {
    work();
    return {};
  }

  /// Runs the recorded work again. Stream: the device's current one. Blocks: no. Dropout's random numbers follow the
  /// generator's seed, as in `work`.
  virtual void replay() = 0;
};

/// Creates a graph for the calling thread's current GPU; null if cuda::library() has an obstacle.
[[nodiscard]] std::unique_ptr<DeviceGraph> make_device_graph();

/// Returns true while the calling thread's current stream is being recorded, by any code. Call it only from a thread
/// that computes on a GPU: elsewhere CUDA would allocate memory for it. Cost: a microsecond.
[[nodiscard]] bool is_recording();

}  // namespace lockstep::tensor

#pragma GCC visibility pop
