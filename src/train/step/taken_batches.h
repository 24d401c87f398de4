// SPDX-License-Identifier: Apache-2.0
// TakenBatches: records the batches of the last steps, so that a batch that ends a run can be saved for inspection.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/train/task.h"
#include "train/step/replica_loaders.h"

namespace lockstep::train {

/// Records the last two calls to compute_gradients(), and a batch that the task rejected. It does not keep the batches
/// themselves, because the loaders can rebuild them. Lifetime: task and loaders outlive it.
class TakenBatches {
 public:
  TakenBatches(const Task& task, const ReplicaLoaders& loaders) : task_(task), loaders_(loaders) {}

  /// Records the start of a call to compute_gradients().
  void begin();
  /// Records batch `number` of this rank's replica `local` (from 0), and the row of its losses.
  void add(std::size_t local, std::int64_t number, const at::Tensor& row);
  /// Returns the losses of the last call: a row for each replica of this rank, summed over its batches.
  [[nodiscard]] const std::vector<at::Tensor>& losses() const { return now_.losses; }
  /// Records a batch that the task rejected.
  void fail(int replica, Batch batch, const std::string& fault);

  /// Returns the job-wide numbers of this rank's replicas whose loss was not finite `ago` calls before the last one (0
  /// or 1).
  [[nodiscard]] std::vector<std::int64_t> bad_replicas(std::int64_t ago) const;

  /// Returns the samples of the first batch of this rank whose loss was not finite `ago` calls before the last one (0
  /// or 1), as the data set describes them; empty if there is no such batch. Throws: anything the data set throws.
  [[nodiscard]] std::vector<std::string> bad_samples(std::int64_t ago) const;

  /// Writes the batches of this rank whose loss was not finite `ago` calls before the last one (0 or 1), or the batch
  /// that the task rejected, to `folder`. `step` is the step of that call. Returns: the files. Throws: IoError;
  /// anything the data set throws.
  [[nodiscard]] std::vector<std::filesystem::path> keep_bad(std::int64_t step, std::int64_t ago,
                                                            const std::filesystem::path& folder) const;

 private:
  /// A call to compute_gradients(), whose batches can be rebuilt.
  struct Call {
    std::int64_t epoch = 0;
    std::int64_t first_batch = -1;
    std::vector<at::Tensor> losses = {};             ///< rows summed over the batches, by replica of this rank
    std::vector<std::vector<at::Tensor>> rows = {};  ///< rows of each batch, by replica of this rank
  };
  /// A batch that the task rejected.
  struct Failed {
    int replica = 0;
    Batch batch;
    std::string fault;
  };

  /// Returns the number of the first accumulated batch whose loss was not finite.
  [[nodiscard]] static std::int64_t bad_batch(const Call& call, std::size_t local);
  [[nodiscard]] std::filesystem::path remake_and_keep(const Call& call, std::size_t local, std::int64_t step,
                                                      const std::filesystem::path& folder) const;

  const Task& task_;
  const ReplicaLoaders& loaders_;
  Call now_;
  Call before_;
  std::optional<Failed> failed_;
};

}  // namespace lockstep::train
