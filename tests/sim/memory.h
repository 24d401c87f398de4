// SPDX-License-Identifier: Apache-2.0
// The resources of a process: its heap, descriptors and threads. Limits are checked on every turn.
#pragma once

#include <cstdint>

namespace lockstep::sim {

struct Use {
  std::int64_t heap = 0;  ///< bytes allocated by its C++ code
  std::int64_t descriptors = 0;
  std::int64_t threads = 0;

  /// Raises each value to that of `other` if that is larger.
  void raise_to(const Use& other);
  [[nodiscard]] bool is_within(const Use& limit) const;
  /// Returns the usage as a percentage of each limit.
  [[nodiscard]] Use share_of(const Use& limit) const;
};

/// Allocations made during its lifetime are charged to the machine rather than to a process.
class OfMachine {
 public:
  OfMachine();
  ~OfMachine();
  OfMachine(const OfMachine&) = delete;
  OfMachine& operator=(const OfMachine&) = delete;

 private:
  bool before_;
};

}  // namespace lockstep::sim
