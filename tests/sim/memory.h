// SPDX-License-Identifier: Apache-2.0
// What a process takes: its heap, descriptors and threads, which its limits bound at every turn.
#pragma once

#include <cstdint>

namespace lockstep::sim {

struct Use {
  std::int64_t heap = 0;  ///< bytes that its C++ code has allocated
  std::int64_t descriptors = 0;
  std::int64_t threads = 0;

  /// Of each the larger.
  void raise_to(const Use& other);
  [[nodiscard]] bool is_within(const Use& limit) const;
  /// In hundredths.
  [[nodiscard]] Use share_of(const Use& limit) const;
};

/// While it lives, what is allocated belongs to the machine and to no process.
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
