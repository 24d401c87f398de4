// SPDX-License-Identifier: Apache-2.0
// Watches the steps of a replay and records the last one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/observe/operator_values.h"
#include "lockstep/train/step_watch.h"
#include "lockstep/train/train_config.h"
#include "worker/explain/step_record.h"

namespace lockstep::worker {

struct RecorderOptions {
  ProcessGroup* group = nullptr;                        ///< group with only this process, for single_losses
  std::int64_t step = 0;                                ///< number of the step to record
  bool operators = false;                               ///< true: records the digest of every operator's result
  bool single_losses = false;                           ///< true: records the loss of each sample alone
  std::function<void(std::int64_t step)> on_step = {};  ///< called before each step
};

/// The gradient norms of one step by layer.
using LayerNorms = std::map<std::string, double>;

/// Watches a run on one process. Lifetime: task and config outlive it.
class StepRecorder final : public StepWatch {
 public:
  StepRecorder(Task& task, const TrainConfig& config, RecorderOptions options)
      : task_(task), config_(config), options_(std::move(options)) {}

  bool wants(std::int64_t step) override;
  void on_batch(const WatchedBatch& watched) override;
  void on_batch_done(const WatchedBatch& watched, const at::Tensor& losses) override;
  void on_gradients(const StepGradients& gradients) override;

  /// Returns the record of the step, in which lr and loss are not set.
  [[nodiscard]] const StepRecord& record() const { return record_; }
  /// Returns true once the step's batches are recorded.
  [[nodiscard]] bool has_step() const { return !record_.batches.empty(); }
  /// Returns the gradient norms of the replayed steps; the recorded step is the last.
  [[nodiscard]] const std::vector<LayerNorms>& norms() const { return norms_; }
  /// Returns the step's images, by replica and sample; undefined tensors if its data are not images.
  [[nodiscard]] const std::vector<at::Tensor>& pictures() const { return pictures_; }

 private:
  /// The batch that the replica computes now.
  [[nodiscard]] BatchRecord& batch_of(int replica) { return record_.batches[places_.at(replica)]; }
  void add_single_losses();
  /// The loss of a sample alone. The batch holds the sample twice, because batch norm needs more than one.
  [[nodiscard]] double loss_alone(std::int64_t index) const;

  Task& task_;
  const TrainConfig& config_;
  RecorderOptions options_;
  std::int64_t now_ = 0;
  StepRecord record_;
  std::vector<LayerNorms> norms_;
  std::vector<at::Tensor> pictures_;
  std::map<int, std::size_t> places_;  ///< index in record_ of each replica's current batch; replicas may alternate
  std::map<int, std::unique_ptr<observe::OperatorValues>> values_;
  torch::nn::Module* model_ = nullptr;  ///< network of the step
  Dataset* dataset_ = nullptr;
  std::int64_t epoch_ = 0;
};

}  // namespace lockstep::worker
