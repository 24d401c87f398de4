// SPDX-License-Identifier: Apache-2.0
// The descendants of a process, read from /proc without allocating: for the stub.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace lockstep::launch {

struct ProcessEntry {
  pid_t pid = 0;
  pid_t parent = 0;
  char state = 0;  ///< R, S, D, T, Z, ...
  bool is_descendant = false;
};

/// A table of processes in memory of its own (mapped, not allocated: usable after a fork).
class ProcessTree {
 public:
  ProcessTree() noexcept;
  ProcessTree(const ProcessTree&) = delete;
  ProcessTree& operator=(const ProcessTree&) = delete;
  ~ProcessTree();

  /// False where there was no memory for it.
  [[nodiscard]] bool is_usable() const noexcept { return entries_ != nullptr; }

  /// Reads /proc anew and marks the descendants of `root`. False where /proc cannot be read.
  bool read(pid_t root) noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] const ProcessEntry& operator[](std::size_t index) const noexcept { return entries_[index]; }

 private:
  void add(const char* name) noexcept;
  void mark(pid_t root) noexcept;

  ProcessEntry* entries_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace lockstep::launch
