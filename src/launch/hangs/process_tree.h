// SPDX-License-Identifier: Apache-2.0
// The descendants of a process, read from /proc without allocating, for the stub.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace lockstep::launch {

struct ProcessEntry {
  pid_t pid = 0;  ///< process id in /proc
  pid_t parent = 0;
  char state = 0;  ///< R, S, D, T, Z, ...
  bool is_descendant = false;
  std::uint64_t ticks = 0;  ///< CPU time of the process and of the children that it has waited for
};

/// Returns this process's number in /proc; 0 if it cannot be read. It differs from getpid() if /proc belongs to an
/// outer pid namespace (unshare --pid without --mount-proc). In that case, kill() would send the signal to a different
/// process if it were given a number from /proc.
[[nodiscard]] pid_t number_in_proc() noexcept;

/// A table of processes in its own mapped memory, so it is usable after a fork.
class ProcessTree {
 public:
  ProcessTree() noexcept;
  ProcessTree(const ProcessTree&) = delete;
  ProcessTree& operator=(const ProcessTree&) = delete;
  ~ProcessTree();

  /// Returns false if there was no memory for the table.
  [[nodiscard]] bool is_usable() const noexcept { return entries_ != nullptr; }

  /// Reads /proc again and marks the descendants of process `root`, a number in /proc; 0 means this process. Returns
  /// false if /proc cannot be read.
  bool read(pid_t root = 0) noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] const ProcessEntry& operator[](std::size_t index) const noexcept { return entries_[index]; }
  /// Returns true if the entry is the process that kill() knows as `pid`.
  [[nodiscard]] bool is(std::size_t index, pid_t pid) const noexcept;
  /// Sends a signal as kill() does, even if /proc belongs to another namespace.
  void signal(std::size_t index, int number) const noexcept;

 private:
  void add(const char* name) noexcept;
  void mark(pid_t root) noexcept;

  ProcessEntry* entries_ = nullptr;
  std::size_t size_ = 0;
  bool is_foreign_ = false;  ///< /proc belongs to another namespace
};

}  // namespace lockstep::launch
