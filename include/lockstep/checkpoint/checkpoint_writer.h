// SPDX-License-Identifier: Apache-2.0
// One call a save: a checkpoint is committed, gets its names, and the ones that may go are removed.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/checkpoint/async_saver.h"
#include "lockstep/checkpoint/checkpoint.h"

#pragma GCC visibility push(default)

namespace lockstep {

struct CheckpointWriterOptions {
  std::filesystem::path folder;  ///< the run's "checkpoints"; it is made
  Retention retention = {};
  bool background = false;  ///< save_in_background() may be called: a thread is started
  /// As ShardedContent::check; may be empty. Called from the thread that writes.
  std::function<void()> check = nullptr;
};

/// What a checkpoint is besides its states.
struct SaveOrder {
  CheckpointMeta meta;
  CheckpointTexts texts = {};           ///< rank 0's
  std::vector<std::string> names = {};  ///< the bests that it becomes
};

/// A checkpoint that is durable.
struct SavedCheckpoint {
  std::int64_t step = 0;
  std::filesystem::path path;
  std::vector<std::string> names;
};

/// Writes the checkpoints of one run: a process alone, or with `peers` every rank its part.
///
/// Invariants. At most one save is under way. A checkpoint gets its names only once it is durable, and older ones go
/// only after that, so a kill at any moment leaves every name on a whole checkpoint. `mutex_` guards what the writing
/// thread tells (the newest path, the saves that nobody has taken); all else belongs to the thread that owns the
/// writer, which changes nothing while a save is under way.
///
/// Owned by one thread, but for give_up().
/// Example: CheckpointWriter writer(FileSystem::system(), {.folder = "runs/own/checkpoints"});
///          writer.save(parts, {.meta = {.step = 100}, .names = {"best"}});
class CheckpointWriter {
 public:
  /// Lifetime: `files`, and the store of `peers`, outlive it.
  CheckpointWriter(FileSystem& files, CheckpointWriterOptions options,
                   std::unique_ptr<CheckpointPeers> peers = no_peers());
  /// As give_up(), and waits for the thread. Call wait() first where the save is to be finished.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Has the thread make room for copies of states like `parts`. Never blocks for long; nothing without a thread.
  void reserve(const StateParts& parts);

  /// Commits, names and prunes in the calling thread.
  /// Collective: every rank of the peers. Blocks: until the disk has it. Throws: as commit_sharded_checkpoint().
  void save(const StateParts& parts, const SaveOrder& order);

  /// As save(), from a copy in the writer's thread.
  /// Blocks: until the save before has ended, and for a copy of the state. What goes wrong later is thrown by check(),
  ///         wait() or the next save. Throws: UsageError without options.background.
  void save_in_background(const StateParts& parts, const SaveOrder& order);

  /// Gives the newest checkpoint further names, and prunes. Rank 0 acts; elsewhere nothing happens.
  void name_newest(const std::vector<std::string>& names);

  /// True while a save is under way in the background.
  [[nodiscard]] bool is_busy() const;
  /// Throws: what a save in the background has thrown, once. Never blocks.
  void check();
  /// Waits for the save under way. Throws: as check().
  void wait();

  /// Ends, from any thread, a save that waits for other ranks; a save that has no name yet is dropped with PeerError.
  void give_up() noexcept;

  /// The checkpoint that a resumed run begins with: the newest until another is saved.
  void start_at(const std::filesystem::path& newest);
  /// The newest durable checkpoint; rank 0's. From any thread.
  [[nodiscard]] std::filesystem::path newest() const;
  /// The checkpoints that have become durable since the last call; rank 0's. Never blocks.
  [[nodiscard]] std::vector<SavedCheckpoint> take_saved();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

#pragma GCC visibility pop
