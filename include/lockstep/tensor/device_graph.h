// SPDX-License-Identifier: Apache-2.0
// Work of a GPU that is recorded once and then started by a single call: a CUDA graph.
#pragma once

#include <functional>
#include <memory>

namespace lockstep::tensor {

/// A recording holds addresses, not values: what `work` reads is read anew at each replay, from the same memory. What
/// `work` allocates while it is recorded stays the graph's.
class DeviceGraph {
 public:
  DeviceGraph() = default;
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;
  virtual ~DeviceGraph() = default;

  /// Runs `work` on the host once; what it gives to the device is recorded and not computed. Once per graph.
  /// Blocks: until the device has done what it was given before.
  /// Throws: what `work` throws, c10::Error for what cannot be recorded (reading a number back, say). The device and
  ///         its current stream are then as before, and the graph is of no more use.
  virtual void record(const std::function<void()>& work) = 0;

  /// Stream: the device's current one. Blocks: no. The numbers of dropout follow the generator's seed, as in `work`.
  virtual void replay() = 0;
};

/// For the current GPU of the calling thread; null where Lockstep was built without CUDA.
[[nodiscard]] std::unique_ptr<DeviceGraph> make_device_graph();

}  // namespace lockstep::tensor
