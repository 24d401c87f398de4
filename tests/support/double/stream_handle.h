// SPDX-License-Identifier: Apache-2.0
// The interface to a fake GPU's stream for the fake NCCL, a separate library. Lockstep passes a pointer to it to NCCL
// as a cudaStream_t.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::testing::make_believe {

/// Memory that an operation reads or writes.
struct Access {
  const void* begin = nullptr;
  std::size_t bytes = 0;
  bool writes = false;
};

class StreamHandle {
 public:
  StreamHandle() = default;
  virtual ~StreamHandle() = default;
  StreamHandle(const StreamHandle&) = delete;
  StreamHandle& operator=(const StreamHandle&) = delete;

  /// Adds work after the stream's current work. The stream's thread does it after the delay LOCKSTEP_DOUBLE_DELAY_US.
  /// If the stream is being recorded (is_recording()), each replay does the work instead.
  /// Thread-safe: yes.
  virtual void enqueue(const std::string& name, const std::vector<Access>& accesses, std::function<void()> work) = 0;
  [[nodiscard]] virtual bool is_recording() = 0;
};

}  // namespace lockstep::testing::make_believe
