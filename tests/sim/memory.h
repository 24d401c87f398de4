// SPDX-License-Identifier: Apache-2.0
// The resources of a process: its heap, descriptors and threads. Limits are checked at every turn.
#pragma once

#include <cstdint>

namespace lockstep::sim {

struct Use {
  std::int64_t heap = 0;  ///< bytes that its C++ code has allocated
  std::int64_t descriptors = 0;
  std::int64_t threads = 0;

  /// Raises each value to that of `other` if the latter is larger.
  void raise_to(const Use& other);
  [[nodiscard]] bool is_within(const Use& limit) const;
  /// Returns the shares of a limit, in hundredths.
  [[nodiscard]] Use share_of(const Use& limit) const;
};

/// Allocations during its lifetime belong to the machine and not to a process.
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
