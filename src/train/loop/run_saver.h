// SPDX-License-Identifier: Apache-2.0
// A run's checkpoints: who writes what of them, in which thread, and which stay.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/checkpoint/async_saver.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/comm/job.h"
#include "lockstep/train/run_sink.h"
#include "lockstep/train/train_config.h"

namespace lockstep::train {

/// What a checkpoint is besides its states.
struct SaveOrder {
  CheckpointMeta meta;
  CheckpointTexts texts;
  std::vector<std::string> names;  ///< bests that it becomes
  bool may_skip = false;           ///< it is there only because some steps have gone by
  bool last = false;               ///< no step follows: nothing is copied, and save() returns when the disk has it
};

/// Owned by the training thread, on every rank. Ranks that write nothing wait for the one that does through the store,
/// so that a slow disk is no dead rank.
class RunSaver {
 public:
  /// `folder`: the run's "checkpoints", on rank 0. Lifetime: `job`'s store outlives it.
  RunSaver(const Job& job, const TrainConfig::Checkpoint& options, std::filesystem::path folder);
  ~RunSaver();
  RunSaver(const RunSaver&) = delete;
  RunSaver& operator=(const RunSaver&) = delete;

  /// Called on rank 0 before it writes: throws what keeps the save from being worth anything, on every rank.
  void require_before_writing(std::function<void()> check) { check_ = std::move(check); }

  /// This rank writes a part, or all.
  [[nodiscard]] bool writes() const { return options_.sharded || job_.is_main(); }

  /// The step that was saved last, or is being saved; -1: none.
  [[nodiscard]] std::int64_t last_step() const { return last_step_; }
  /// That of the checkpoint that the run goes on from, where it lies in the run's folder. On every rank; `path` on
  /// rank 0.
  void start_at(std::int64_t step, const std::filesystem::path& path);

  /// Makes room for copies of states like `parts`. Never blocks.
  void reserve(const StateParts& parts);

  /// Saves `parts`, this rank's, names the checkpoint and prunes. A step that is saved already is only named.
  ///
  /// Collective: yes; `parts` are looked at on ranks that write only. Blocks: for a copy of the state (asynchronous),
  /// or
  ///             until the disk has it; and until the save before has ended. However long the disk takes.
  /// Throws: on every rank, IoError of this save or the one before; what the group has failed with, and the state with
  ///         it: such a checkpoint gets no name.
  void save(const StateParts& parts, const SaveOrder& order);

  /// Throws: what a save in the background has thrown. Never blocks.
  void check();
  /// Waits for the save under way. Collective: yes. Throws: as save().
  void finish();

  /// The checkpoints that have become durable since the last call; rank 0's. Never blocks.
  [[nodiscard]] std::vector<SaveResult> take_saved();

  /// The last committed checkpoint; rank 0's, after finish().
  [[nodiscard]] std::filesystem::path last_path() const;

 private:
  void save_here(const StateParts& parts, const SaveOrder& order);
  void finish_here();
  void write(const StateParts& parts, const SaveOrder& order);
  void check_whole(std::int64_t step) const;
  void wait_for_all(const std::function<bool()>& done) const;

  Job job_;
  TrainConfig::Checkpoint options_;
  std::filesystem::path folder_;
  std::unique_ptr<CheckpointPeers> peers_;
  std::int64_t last_step_ = -1;
  std::int64_t skipped_ = 0;
  mutable std::mutex mutex_;
  std::filesystem::path last_path_;
  std::vector<SaveResult> saved_;  ///< that take_saved() has not returned
  std::function<void()> check_;
  std::atomic<bool> dropped_ = false;  ///< the run ends with an error
  std::unique_ptr<AsyncSaver> async_;  ///< the last member: its thread uses the others
};

}  // namespace lockstep::train
