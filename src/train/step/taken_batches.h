// SPDX-License-Identifier: Apache-2.0
// Which batches the last steps took, so that one over which a run ends can be kept for a person to look at.
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

/// The last two calls of compute_gradients(), and a batch that the task could not take. Batches are not kept, they are
/// made once more. Lifetime: task and loaders outlive it.
class TakenBatches {
 public:
  TakenBatches(const Task& task, const ReplicaLoaders& loaders) : task_(task), loaders_(loaders) {}

  /// A call of compute_gradients() begins.
  void begin();
  /// A batch and its loss's row, of the block's `local`-th replica.
  void add(std::size_t local, std::int64_t number, const at::Tensor& row);
  /// Rows of the call, by replica of this rank: sums over its batches.
  [[nodiscard]] const std::vector<at::Tensor>& losses() const { return now_.losses; }
  /// The task could not take the batch.
  void fail(int replica, Batch batch, const std::string& fault);

  /// Writes the batches of this rank whose loss was not finite `ago` calls before the last one (0 or 1), or the one
  /// that the task could not take, into `folder`. `step`: that call's. Returns: the files. Throws: IoError; what the
  /// data set throws.
  [[nodiscard]] std::vector<std::filesystem::path> keep_bad(std::int64_t step, std::int64_t ago,
                                                            const std::filesystem::path& folder) const;

 private:
  /// One compute_gradients(): its batches can be made once more.
  struct Call {
    std::int64_t epoch = 0;
    std::int64_t first_batch = -1;
    std::vector<at::Tensor> losses = {};             ///< rows, by replica of this rank: sums over the batches
    std::vector<std::vector<at::Tensor>> rows = {};  ///< of each batch, by replica of this rank
  };
  /// A batch that the task could not take.
  struct Failed {
    int replica = 0;
    Batch batch;
    std::string fault;
  };

  [[nodiscard]] std::filesystem::path remake_and_keep(const Call& call, std::size_t local, std::int64_t step,
                                                      const std::filesystem::path& folder) const;

  const Task& task_;
  const ReplicaLoaders& loaders_;
  Call now_;
  Call before_;
  std::optional<Failed> failed_;
};

}  // namespace lockstep::train
