// SPDX-License-Identifier: Apache-2.0
// ReplicaLoaders: the batches of this rank's replicas, with one loader per replica.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/comm/job.h"
#include "lockstep/comm/replicas.h"
#include "lockstep/data/loader.h"
#include "lockstep/train/task.h"
#include "lockstep/train/train_config.h"

namespace lockstep::train {

/// Owned by the training thread. Lifetime: task and config outlive it.
class ReplicaLoaders {
 public:
  /// `config` has the final number of replicas. `block` is this rank's range of replicas.
  ReplicaLoaders(Job job, const Task& task, const TrainConfig& config, ReplicaSpan block);

  /// Opens the loaders. Throws: DataError if too few samples remain after data.skip_samples.
  void open(const std::shared_ptr<Dataset>& dataset);
  /// Makes next() always return each replica's first batch without loading, so that only the steps are timed.
  void repeat_first_batch() { first_batches_.resize(static_cast<std::size_t>(block_.size())); }
  /// Valid after open().
  [[nodiscard]] Dataset& dataset() const { return *loaders_.front().dataset(); }
  [[nodiscard]] std::int64_t batches_per_epoch() const { return loaders_.front().steps_per_epoch(); }
  [[nodiscard]] ReplicaSpan block() const { return block_; }

  /// Makes batch `first_batch` of `epoch` the next batch. Loading begins immediately.
  void start_epoch(std::int64_t epoch, std::int64_t first_batch);
  [[nodiscard]] std::int64_t epoch() const { return epoch_; }
  /// Stops loading.
  void end_epoch() { passes_.clear(); }

  /// Returns the next batch of replica `local` of the block. Blocks: until it is loaded. Throws: InternalError if the
  /// epoch has no more batches; anything the data set throws.
  [[nodiscard]] Batch& next(std::size_t local);
  /// Rebuilds a batch and calls `look` with it.
  void look_again(std::size_t local, std::int64_t epoch, std::int64_t number,
                  const std::function<void(const Batch&)>& look) const;
  /// Rebuilds `count` batches of any replica of the run, starting with batch `first`, and calls `use` with each.
  void make_again(int replica, std::int64_t first, std::int64_t count, const std::function<void(Batch&)>& use) const;

  /// Returns how long the replicas of the rank that waited longest have waited for batches since the last call, as a
  /// fraction of `seconds`. Collective: yes.
  [[nodiscard]] double wait_share(double seconds);
  /// Returns the indices of the samples that this rank's replicas skipped, separately for each replica.
  [[nodiscard]] std::vector<std::int64_t> bad_samples() const;

 private:
  [[nodiscard]] Batch& load(std::size_t local);
  [[nodiscard]] DataLoaderOptions options(int replica, c10::Device device) const;

  Job job_;
  const Task& task_;
  const TrainConfig& config_;
  ReplicaSpan block_;
  std::shared_ptr<const Sampler> sampler_;  ///< null if every sample is read
  std::vector<DataLoader> loaders_;
  std::vector<DataLoader::Epoch> passes_;  ///< the loaders' passes over the current epoch
  /// A replica's batch that next() repeats, and the copy that next() returned.
  struct Repeated {
    std::optional<Batch> first;
    Batch lent;
  };
  std::vector<Repeated> first_batches_;
  std::int64_t epoch_ = 0;
  double reported_wait_s_ = 0;  ///< the waits that wait_share() has already reported
};

}  // namespace lockstep::train
