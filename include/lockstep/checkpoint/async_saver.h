// SPDX-License-Identifier: Apache-2.0
// Saving while the training goes on: the step waits for a copy into memory, a thread writes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "lockstep/tensor/state_part.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// What is copied: parts by state; whole states are parts without slices.
using StateParts = std::map<std::string, StatePart>;

/// Copies a state into memory of its own, which is kept for the next one, and hands the copy to a thread. At most one
/// save is under way. Owned by one thread.
///
/// Source: Mohan et al., CheckFreq: Frequent, Fine-Grained DNN Checkpointing, FAST 2021 (snapshot, then persist).
/// Example: saver.save(parts, [&](const StateParts& copy) { commit_sharded_checkpoint(files, *peers, folder, meta,
///          {copy, texts}); });
class AsyncSaver {
 public:
  AsyncSaver();
  /// Waits for the save under way; its error is only logged.
  ~AsyncSaver();
  AsyncSaver(const AsyncSaver&) = delete;
  AsyncSaver& operator=(const AsyncSaver&) = delete;

  /// Has the thread make room for states like `parts`, so that the first save does not wait for the system's memory.
  void reserve(const StateParts& parts);

  /// Copies `parts` and lets the thread call `write` with the copy.
  ///
  /// Blocks: until a save under way has ended, and for one pass over the state's memory. GPU tensors come through
  ///         page-locked memory. What `write` throws is thrown by the next check(), wait() or save().
  /// Cost:   memory for one copy, kept.
  void save(const StateParts& parts, std::function<void(const StateParts& copy)> write);

  /// True while a save is under way.
  [[nodiscard]] bool is_busy() const;
  /// Throws: what the last save threw, once. Never blocks.
  void check();
  /// Waits for the save under way. Throws: as check().
  void wait();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

#pragma GCC visibility pop
