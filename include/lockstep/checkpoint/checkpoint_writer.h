// SPDX-License-Identifier: Apache-2.0
// Saves the checkpoints of a run: one call commits a checkpoint, names it, and removes old ones.
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

/// The settings of a CheckpointWriter.
struct CheckpointWriterOptions {
  std::filesystem::path folder;  ///< the run's "checkpoints" folder; created if missing
  Retention retention = {};      ///< decides which older checkpoints are kept
  bool background = false;       ///< starts a thread, so that save_in_background() may be called
  /// The same as ShardedContent::check; may be empty. Called on the writing thread.
  std::function<void()> check = nullptr;
};

/// The content of a checkpoint apart from its states.
struct SaveOrder {
  CheckpointMeta meta;                  ///< step and facts about the run, for the manifest
  CheckpointTexts texts = {};           ///< text files: those of rank 0 are saved, all others ignored
  std::vector<std::string> names = {};  ///< the names to give the checkpoint ("best")
  FiniteCheck finite = {};              ///< decides whether non-finite values are saved
};

/// A checkpoint that has become durable.
struct SavedCheckpoint {
  std::int64_t step = 0;           ///< the step that was saved
  std::filesystem::path path;      ///< the step folder
  std::vector<std::string> names;  ///< the names of the checkpoint, such as "best"
};

/// Writes the checkpoints of one run: one process writes everything, or with `peers` every rank writes its part.
///
/// Invariants. At most one save is under way. A checkpoint gets its names only once it is durable, and older ones are
/// removed only after that. So even if the process is killed at any moment, every name refers to a whole checkpoint.
/// `mutex_` guards the results of the writing thread (the newest path, the saves not yet taken). Everything else
/// belongs to the owner's thread, which changes nothing while a save is under way.
///
/// Every call that may block is a section "save" (trace.h): under a launcher, the other ranks' collectives wait for it
/// beyond LOCKSTEP_TIMEOUT.
///
/// Must be used from one thread, except that any thread may call give_up() and newest().
/// Example: CheckpointWriter writer(FileSystem::system(), {.folder = "runs/own/checkpoints"});
///          writer.save(parts, {.meta = {.step = 100}, .names = {"best"}});
class CheckpointWriter {
 public:
  /// Lifetime: `files` and the store of `peers` outlive it.
  CheckpointWriter(FileSystem& files, CheckpointWriterOptions options,
                   std::unique_ptr<CheckpointPeers> peers = no_peers());
  /// Calls give_up() and waits for the thread. Call wait() first if the save must be finished.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Has the thread allocate memory for copies of states like `parts`. It blocks only briefly, and does nothing without
  /// a thread.
  void reserve(const StateParts& parts);

  /// Commits and names a checkpoint, and removes old ones, on the calling thread.
  /// Collective: every rank of the peers. Blocks: until the data is on disk. Throws: anything
  ///             commit_sharded_checkpoint() throws; for non-finite values a DataError that names the last checkpoint
  ///             without them, and nothing is removed.
  void save(const StateParts& parts, const SaveOrder& order);

  /// Like save(), but copies the states and saves the copy on the writer's thread.
  /// Blocks: until the previous save has ended, and for a copy of the states. The next check(), wait() or save throws
  ///         an error from the thread. Throws: UsageError without options.background.
  void save_in_background(const StateParts& parts, const SaveOrder& order);

  /// Adds names to the newest checkpoint, and removes old checkpoints. Does nothing on ranks other than 0.
  /// Throws: IoError, including when the checkpoint is gone.
  void name_newest(const std::vector<std::string>& names);

  /// Returns true while a save is under way in the background.
  [[nodiscard]] bool is_busy() const;
  /// Returns true if a background save has thrown, until check(), wait() or the next save rethrows it. Never blocks.
  [[nodiscard]] bool has_failed() const;
  /// Rethrows the exception of a background save, once. Never blocks.
  void check();
  /// Waits for the save under way. Throws: anything check() throws.
  void wait();

  /// Ends a save that is waiting for other ranks. Unless that save has already been committed, it fails with PeerError.
  /// Any thread may call this.
  void give_up() noexcept;

  /// Sets the checkpoint from which a run resumes. It is the newest checkpoint until another is saved.
  void start_at(const std::filesystem::path& newest);
  /// Returns the newest durable checkpoint, on rank 0. Any thread may call it.
  [[nodiscard]] std::filesystem::path newest() const;
  /// Returns the checkpoints that have become durable since the last call, on rank 0. Never blocks.
  [[nodiscard]] std::vector<SavedCheckpoint> take_saved();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

#pragma GCC visibility pop
