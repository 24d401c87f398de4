// SPDX-License-Identifier: Apache-2.0
// GPU work that is recorded once and then started by a single call: a CUDA graph.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::tensor {

/// A recording of device work. It holds addresses, not values: each replay reads the inputs of `work` again, from the
/// same memory. The graph keeps the memory that `work` allocates while it is recorded.
class DeviceGraph {
 public:
  DeviceGraph() = default;
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;
  virtual ~DeviceGraph() = default;

  /// Sends the calling thread's work to the recorded stream while the result lives. That stream is the same for all
  /// recordings of the process; its work runs after earlier work of the current stream and before later work.
  /// Autograd's gradient accumulators belong to the stream on which they were made, and a recording must not wait for
  /// another stream: create objects that keep such nodes, and run the steps before the recording, under this. Blocks:
  /// no.
  /// Returns: null where there is no such stream.
  [[nodiscard]] virtual std::shared_ptr<void> enter() { return nullptr; }

  /// Runs `work` on the host once; its device work is recorded and not computed. Call it once per graph.
  /// Blocks: until the device has finished its earlier work.
  /// Throws: what `work` throws, c10::Error for work that cannot be recorded (reading a number back, say). Where
  ///         intact() is false then, the allocator and the random generator still belong to the recording, and this
  ///         process must not compute anything more.
  virtual void record(const std::function<void()>& work) = 0;

  /// Returns true where other threads may ask the device for events, and allocate, during record().
  [[nodiscard]] virtual bool lets_other_threads() const noexcept { return true; }

  /// Returns true if the process may go on computing after record() has thrown.
  [[nodiscard]] virtual bool intact() const noexcept { return false; }

  /// Runs `work`, and returns the names of the operators that made the host wait for the device ("aten::nonzero"), in
  /// order. Work with one cannot be recorded. It sees what libtorch's synchronization debug mode sees.
  [[nodiscard]] virtual std::vector<std::string> waits(const std::function<void()>& work) {
    work();
    return {};
  }

  /// Runs the recorded work again. Stream: the device's current one. Blocks: no. Dropout's numbers follow the
  /// generator's seed, as in `work`.
  virtual void replay() = 0;
};

/// Makes a graph for the calling thread's current GPU; null where cuda::library() has an obstacle.
[[nodiscard]] std::unique_ptr<DeviceGraph> make_device_graph();

/// Returns true while work on the calling thread's current stream is recorded, by whomever. Call it only where the
/// thread computes on a GPU: elsewhere CUDA would take memory for it. Cost: a microsecond.
[[nodiscard]] bool is_recording();

}  // namespace lockstep::tensor

#pragma GCC visibility pop
