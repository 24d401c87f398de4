// SPDX-License-Identifier: Apache-2.0
// Carries tensors between devices without host memory: it enqueues work and never waits for the device. It does not
// know which ranks are late or dead; device_path.h adds that.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>

#include "comm/core/collective.h"

namespace lockstep::comm {

/// An event that marks the end of work enqueued on a device.
class DeviceEvent {
 public:
  DeviceEvent() = default;
  virtual ~DeviceEvent() = default;
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;

  /// Makes later work on the calling thread's current stream run after the event. Blocks: no.
  virtual void hold_stream() = 0;
  /// Thread-safe: yes.
  [[nodiscard]] virtual bool is_done() = 0;
};

class DeviceBackend {
 public:
  DeviceBackend() = default;
  virtual ~DeviceBackend() = default;
  DeviceBackend(const DeviceBackend&) = delete;
  DeviceBackend& operator=(const DeviceBackend&) = delete;

  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual c10::Device device() const = 0;

  /// Returns false for operations that it cannot carry, such as a bitwise reduction; those go through host memory.
  [[nodiscard]] virtual bool takes(const Collective& collective) const = 0;

  /// Enqueues the collective on the transport's own stream, after the current stream's earlier work. The tensors are
  /// contiguous and live until the event is done; `collective` has their device addresses.
  /// Blocks: never for the device; at the first connection until the peers connect, or until abort().
  /// Throws: ResourceError with advice.
  [[nodiscard]] virtual std::shared_ptr<DeviceEvent> enqueue(const Collective& collective, const at::Tensor& input,
                                                             const at::Tensor& output) = 0;

  /// Returns an event at the end of the current stream's work so far.
  [[nodiscard]] virtual std::shared_ptr<DeviceEvent> mark() = 0;

  /// Returns an error that the transport itself reports, if there is one. Thread-safe: yes.
  [[nodiscard]] virtual std::optional<std::string> problem() = 0;

  /// Makes everything under way end soon, with undefined results. Thread-safe: yes.
  virtual void abort() noexcept = 0;
};

}  // namespace lockstep::comm
