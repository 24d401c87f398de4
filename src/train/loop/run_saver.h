// SPDX-License-Identifier: Apache-2.0
// A run's checkpoints: the rank that writes them, the waits of the others, and the effect of a failed group.
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

/// A save that the training requests.
struct RunSave {
  SaveOrder order;
  bool may_skip = false;  ///< only a number of steps has made it due
  bool last = false;      ///< no step follows: nothing is copied, and save() returns when the data are on the disk
};

/// Owned by the training thread, on every rank. Ranks that write nothing wait through the store for the rank that
/// writes, so that a slow disk does not look like a dead rank.
class RunSaver {
 public:
  /// `folder` is the run's "checkpoints", on rank 0. Lifetime: `job`'s store outlives it.
  RunSaver(const Job& job, const TrainConfig::Checkpoint& options, std::filesystem::path folder);
  /// After finish() nothing is under way. Without finish() the run has failed, and a save under way is dropped: it
  /// would wait for ranks that no longer come, or keep a damaged state.
  ~RunSaver() = default;
  RunSaver(const RunSaver&) = delete;
  RunSaver& operator=(const RunSaver&) = delete;

  /// Sets a check that rank 0 calls before it writes; an exception of it is thrown on every rank.
  void require_before_writing(std::function<void()> check) { check_ = std::move(check); }

  /// Returns true if this rank writes a part or everything.
  [[nodiscard]] bool writes() const { return options_.sharded || job_.is_main(); }

  /// Returns the step that was saved last, or is being saved; -1: none.
  [[nodiscard]] std::int64_t last_step() const { return last_step_; }
  /// Sets that step to the checkpoint that the run resumes from, if it lies in the run's folder. Every rank calls it;
  /// `path` is rank 0's.
  void start_at(std::int64_t step, const std::filesystem::path& path);

  /// Allocates memory for copies of states like `parts`. It does not block for long.
  void reserve(const StateParts& parts) { writer_.reserve(parts); }

  /// Saves `parts`, this rank's, names the checkpoint and prunes. A step that is saved already is only named.
  ///
  /// Collective: yes; only ranks that write read `parts`. Blocks: for a copy of the state (asynchronous), or until the
  ///             data are on the disk; also until the previous save has ended. No timeout limits it.
  /// Throws: on every rank, IoError of this save or the previous one; also the group's failure, after which the state
  ///         may be damaged: such a checkpoint gets no name.
  void save(const StateParts& parts, const RunSave& request);

  /// Returns true if a background save of this rank has failed. The ranks learn of that at different moments: the next
  /// save(), or finish(), throws it on every rank. Never blocks.
  [[nodiscard]] bool has_failed() const { return writer_.has_failed(); }
  /// Waits for the save under way. Collective: yes. Throws: as save().
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
  CheckpointWriter writer_;  ///< the last member: its thread uses the others
};

}  // namespace lockstep::train
