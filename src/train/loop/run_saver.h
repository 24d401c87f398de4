// SPDX-License-Identifier: Apache-2.0
// RunSaver: saves a run's checkpoints, makes the other ranks wait as needed, and handles a failed process group.
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

/// A requested save.
struct RunSave {
  SaveOrder order;
  bool may_skip = false;  ///< due only because of checkpoint.every_steps
  bool last = false;      ///< no step follows, so nothing is copied and save() returns once the data is on disk
};

/// Owned by the training thread, on every rank. Ranks that write nothing wait through the store for the writing rank,
/// so that a slow disk does not look like a dead rank.
class RunSaver {
 public:
  /// `folder` is the run's "checkpoints" folder, on rank 0. Lifetime: `job`'s store outlives it.
  RunSaver(const Job& job, const TrainConfig::Checkpoint& options, std::filesystem::path folder);
  /// After finish() no save is in progress. If finish() was not called, the run has failed, and an unfinished save is
  /// dropped, because it would wait for dead ranks or preserve a damaged state.
  ~RunSaver() = default;
  RunSaver(const RunSaver&) = delete;
  RunSaver& operator=(const RunSaver&) = delete;

  /// Sets a check that rank 0 calls before it writes; the check's exception is thrown on every rank.
  void require_before_writing(std::function<void()> check) { check_ = std::move(check); }

  /// Returns true if this rank writes a part or all of it.
  [[nodiscard]] bool writes() const { return options_.sharded || job_.is_main(); }

  /// Returns the step last saved or being saved; -1 if none.
  [[nodiscard]] std::int64_t last_step() const { return last_step_; }
  /// Sets last_step() to the step of the checkpoint to resume from, if that is in the run's folder. Every rank calls
  /// it; `path` is rank 0's.
  void start_at(std::int64_t step, const std::filesystem::path& path);

  /// Allocates memory for copies of states such as `parts`. Does not block for long.
  void reserve(const StateParts& parts) { writer_.reserve(parts); }

  /// Saves this rank's `parts`, names the checkpoint, and removes old ones. If the step is already saved, only names
  /// its checkpoint.
  ///
  /// Collective: yes; only ranks that write read `parts`. Blocks: for a copy of the state (asynchronous), or until the
  ///             data is on disk; also until the previous save has ended. No timeout limits it.
  /// Throws: on every rank, the IoError of this or the previous save; the failure of the group, after which the state
  ///         may be damaged, so that the checkpoint gets no name.
  void save(const StateParts& parts, const RunSave& request);

  /// Returns true if a background save of this rank has failed. The next save() or finish() throws its error on every
  /// rank, because ranks notice the failure at different times. Never blocks.
  [[nodiscard]] bool has_failed() const { return writer_.has_failed(); }
  /// Waits for a save in progress. Collective: yes. Throws: anything save() throws.
  void finish();

  /// Returns the checkpoints that have become durable since the last call, on rank 0. Never blocks.
  [[nodiscard]] std::vector<SaveResult> take_saved();

  /// Returns the last committed checkpoint, on rank 0, after finish().
  [[nodiscard]] std::filesystem::path last_path() const { return writer_.newest(); }

 private:
  void save_here(const StateParts& parts, const RunSave& request);
  void finish_here();
  void save_together(const StateParts& parts, const RunSave& request);
  void require_whole() const;
  void wait_for_all(const std::function<bool()>& done) const;

  Job job_;
  TrainConfig::Checkpoint options_;
  std::int64_t last_step_ = -1;
  std::int64_t skipped_ = 0;
  std::function<void()> check_;
  CheckpointWriter writer_;  ///< must be the last member, because its thread uses the others
};

}  // namespace lockstep::train
