// SPDX-License-Identifier: Apache-2.0
// Work of a GPU that is recorded once and then started by a single call: a CUDA graph.
#pragma once

#include <functional>
#include <memory>

#pragma GCC visibility push(default)

namespace lockstep::tensor {

/// A recording holds addresses, not values: what `work` reads is read anew at each replay, from the same memory. What
/// `work` allocates while it is recorded stays the graph's.
class DeviceGraph {
 public:
  DeviceGraph() = default;
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;
  virtual ~DeviceGraph() = default;

  /// While what it returns lives, the calling thread's work goes to the stream that is recorded: one for the process
  /// and the same in every recording, behind what the current stream was given before and ahead of what it gets after.
  /// What autograd keeps belongs to the stream that it was made on (gradients' accumulators), and a recording may wait
  /// for no other: so whoever keeps some of it, and the steps before the recording, are made under this. Blocks: no.
  /// Returns: null where there is no such stream.
  [[nodiscard]] virtual std::shared_ptr<void> enter() { return nullptr; }

  /// Runs `work` on the host once; what it gives to the device is recorded and not computed. Once per graph.
  /// Blocks: until the device has done what it was given before.
  /// Throws: what `work` throws, c10::Error for what cannot be recorded (reading a number back, say). The allocator and
  ///         the random numbers then still belong to the recording: nothing more is to be computed in this process.
  virtual void record(const std::function<void()>& work) = 0;

  /// Stream: the device's current one. Blocks: no. The numbers of dropout follow the generator's seed, as in `work`.
  virtual void replay() = 0;
};

/// For the current GPU of the calling thread; null where Lockstep was built without CUDA.
[[nodiscard]] std::unique_ptr<DeviceGraph> make_device_graph();

}  // namespace lockstep::tensor

#pragma GCC visibility pop
