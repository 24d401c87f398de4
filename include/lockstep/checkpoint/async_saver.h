// SPDX-License-Identifier: Apache-2.0
// Saves while training continues: a step waits only for a copy into memory, and a thread writes the copy.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "lockstep/tensor/state_part.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The states to copy, by name. A whole state is a StatePart without slices.
using StateParts = std::map<std::string, StatePart>;

/// Copies states into its own memory, which it reuses for the next copy, and passes the copy to a thread that writes
/// it. At most one save is under way. Must be used from one thread.
///
/// Source: Mohan et al., CheckFreq: Frequent, Fine-Grained DNN Checkpointing, FAST 2021 (snapshot, then persist).
/// Example: saver.save(parts, [&](const StateParts& copy) { commit_sharded_checkpoint(files, *peers, folder, meta,
///          {copy, texts}); });
class AsyncSaver {
 public:
  AsyncSaver();
  /// Waits for the save under way and logs its error.
  ~AsyncSaver();
  AsyncSaver(const AsyncSaver&) = delete;
  AsyncSaver& operator=(const AsyncSaver&) = delete;

  /// Has the thread allocate memory for states like `parts`, so that the first save does not wait for page faults.
  void reserve(const StateParts& parts);

  /// Copies `parts` and has the thread call `write` with the copy.
  ///
  /// Blocks: until a save under way has ended, and for one copy of the states. GPU tensors are copied through
  ///         page-locked memory. The next check(), wait() or save() throws the exception from `write`.
  /// Cost:   memory for one copy, which is kept.
  void save(const StateParts& parts, std::function<void(const StateParts& copy)> write);

  /// Returns true while a save is under way.
  [[nodiscard]] bool is_busy() const;
  /// Returns true if the last save threw, until check(), wait() or save() has rethrown the exception. Never blocks.
  [[nodiscard]] bool has_failed() const;
  /// Throws the last save's exception, once. Never blocks.
  void check();
  /// Waits for the save under way. Throws: anything check() throws.
  void wait();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

#pragma GCC visibility pop
