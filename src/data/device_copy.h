// SPDX-License-Identifier: Apache-2.0
// A worker's copies of batches to a device, on their own stream. The training stream keeps computing, and waits for a
// copy only when it uses the batch. Uses libtorch's device-neutral streams, so it needs no CUDA header.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <optional>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

/// Copies batches to a device. It belongs to one thread, and does nothing for the CPU.
class DeviceCopy {
 public:
  explicit DeviceCopy(c10::Device device);
  /// Starts copying the batch's tensors, and replaces them with the copies. Returns: the event that marks completion.
  std::optional<c10::Event> start(Batch& batch);

 private:
  c10::Device device_;
  std::optional<c10::Stream> stream_;
};

/// Makes the caller's current stream wait for `copied`, and keeps the batch's memory until that stream is done with it.
void wait_for_copy(const c10::Event& copied, const Batch& batch);

}  // namespace lockstep::data
