// SPDX-License-Identifier: Apache-2.0
// What the make-believe NCCL, a library of its own, sees of a make-believe GPU's stream. It is behind the pointer that
// Lockstep hands to NCCL as a cudaStream_t.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::testing::make_believe {

/// Memory that an operation reads, or writes.
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

  /// Puts work behind what the stream has. The stream's thread does it, after the delay that LOCKSTEP_DOUBLE_DELAY_US
  /// orders. Thread-safe: yes.
  /// While it is recorded, the work is not done, and each replay does it: is_recording().
  virtual void enqueue(const std::string& name, const std::vector<Access>& accesses, std::function<void()> work) = 0;
  [[nodiscard]] virtual bool is_recording() = 0;
};

}  // namespace lockstep::testing::make_believe
