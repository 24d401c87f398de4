// SPDX-License-Identifier: Apache-2.0
// A run's checkpoints: which rank writes them, when the others wait, and what a failed group does to them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "lockstep/checkpoint/checkpoint_writer.h"
#include "lockstep/comm/job.h"
#include "lockstep/train/run_sink.h"
#include "lockstep/train/train_config.h"

namespace lockstep::train {

/// A save that the training asks for.
struct RunSave {
  SaveOrder order;
  bool may_skip = false;  ///< it is there only because some steps have gone by
  bool last = false;      ///< no step follows: nothing is copied, and save() returns when the disk has it
};

/// Owned by the training thread, on every rank. Ranks that write nothing wait for the one that does through the store,
/// so that a slow disk is no dead rank.
class RunSaver {
 public:
  /// `folder`: the run's "checkpoints", on rank 0. Lifetime: `job`'s store outlives it.
  RunSaver(const Job& job, const TrainConfig::Checkpoint& options, std::filesystem::path folder);
  /// After finish() nothing is under way. Without it the run ends with an error: a save under way would wait for ranks
  /// that do not come any more, or keep what the error has spoilt, and is dropped.
  ~RunSaver() = default;
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
  void reserve(const StateParts& parts) { writer_.reserve(parts); }

  /// Saves `parts`, this rank's, names the checkpoint and prunes. A step that is saved already is only named.
  ///
  /// Collective: yes; `parts` are looked at on ranks that write only. Blocks: for a copy of the state (asynchronous),
  /// or
  ///             until the disk has it; and until the save before has ended. However long the disk takes.
  /// Throws: on every rank, IoError of this save or the one before; what the group has failed with, and the state with
  ///         it: such a checkpoint gets no name.
  void save(const StateParts& parts, const RunSave& what);

  /// Throws: what a save in the background has thrown. Never blocks.
  void check() { writer_.check(); }
  /// Waits for the save under way. Collective: yes. Throws: as save().
  void finish();

  /// The checkpoints that have become durable since the last call; rank 0's. Never blocks.
  [[nodiscard]] std::vector<SaveResult> take_saved();

  /// The last committed checkpoint; rank 0's, after finish().
  [[nodiscard]] std::filesystem::path last_path() const { return writer_.newest(); }

 private:
  void save_here(const StateParts& parts, const RunSave& what);
  void finish_here();
  void save_together(const StateParts& parts, const RunSave& what);
  void require_whole() const;
  void wait_for_all(const std::function<bool()>& done) const;

  Job job_;
  TrainConfig::Checkpoint options_;
  std::int64_t last_step_ = -1;
  std::int64_t skipped_ = 0;
  std::function<void()> check_;
  CheckpointWriter writer_;  ///< the last member: its thread uses the others
};

}  // namespace lockstep::train
