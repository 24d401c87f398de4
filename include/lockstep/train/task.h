// SPDX-License-Identifier: Apache-2.0
// Task: what a user gives to the Trainer. Data, model, loss and metrics; the Trainer brings everything else.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/collate.h"
#include "lockstep/data/dataset.h"
#include "lockstep/tensor/state_dict.h"

namespace torch::nn {
class Module;  // torch/nn/module.h takes 6 s to compile: whoever has a network has it
}

#pragma GCC visibility push(default)

namespace lockstep {

class Tally;

/// A figure of an evaluation, such as {"string_accuracy", 0.914}.
struct Metric {
  std::string name;
  double value = 0;
  bool lower_is_better = false;  ///< as a loss; decides what is the best checkpoint
  bool in_table = true;          ///< stands in the table of epochs
};

/// The tensors that a network gives for a batch, by name. One that is alone has the name "".
using Outputs = std::map<std::string, at::Tensor>;

/// A part of the loss, with its weight: the loss is the sum of all parts.
struct LossTerm {
  std::string name;  ///< in log.jsonl and in errors
  at::Tensor value;  ///< a scalar
};

/// Where a run is, before the first batch of an epoch.
struct EpochInfo {
  std::int64_t epoch = 0;  ///< from 0
  std::int64_t stage = 1;  ///< 2 in a second stage (TrainConfig::Stages)
};

/// One training problem. A network with one output and one loss overrides forward(), loss() and count(); one with
/// several overrides run(), loss_terms() and make_tally() instead.
///
/// Every method is called by the thread that trains. None communicates, but for run() and loss_terms() in training:
/// there this_replica().all_reduce() is allowed, as long as every batch makes the same calls.
/// Example: recipes/captcha/task.cpp; recipes/detection/task.cpp.
class Task {
 public:
  virtual ~Task() = default;

  /// The samples under `folder`, for training or evaluation. Throws: DataError naming the folder or file.
  [[nodiscard]] virtual std::shared_ptr<Dataset> make_dataset(const std::string& folder) = 0;
  /// The same where the two differ, as with augmentations.
  [[nodiscard]] virtual std::shared_ptr<Dataset> make_training_set(const std::string& folder) {
    return make_dataset(folder);
  }
  /// How samples are put together; empty: they are stacked.
  [[nodiscard]] virtual Collate collate() const { return {}; }

  /// Called before weights are taken from a checkpoint or file, and before make_model() where the checkpoint is all
  /// that is known (`lockstep eval`, `predict`): a task that keeps what its data mean in the model, such as a
  /// vocabulary, takes it from there, or compares. `state`: the model's entries. Throws: DataError naming what does not
  /// fit.
  virtual void check_model_state(const StateDict& /*state*/) {}

  /// The network with fresh weights; libtorch's generator has been seeded.
  [[nodiscard]] virtual std::shared_ptr<torch::nn::Module> make_model() = 0;

  /// Called on every rank before the batches of each epoch, also where a resumed run goes on in the middle of one: what
  /// is done in training may depend on it.
  virtual void begin_epoch(const EpochInfo& /*info*/) {}

  /// The network's output for a batch. Runs under Autocast where amp is on.
  [[nodiscard]] virtual at::Tensor forward(torch::nn::Module& model, const Batch& batch);
  /// All of its outputs; the model's mode says whether it is for training. Runs under Autocast where amp is on.
  [[nodiscard]] virtual Outputs run(torch::nn::Module& model, const Batch& batch);

  /// A scalar, the mean over the batch's samples. Runs outside Autocast; `output` may be bfloat16.
  [[nodiscard]] virtual at::Tensor loss(const at::Tensor& output, const Batch& batch);
  /// Its parts: the same names for every batch, whatever it holds. Runs outside Autocast.
  [[nodiscard]] virtual std::vector<LossTerm> loss_terms(const Outputs& outputs, const Batch& batch);

  /// Counts of a batch in evaluation, float64, one dimension, of the same length for every batch: they are summed over
  /// batches and ranks.
  [[nodiscard]] virtual at::Tensor count(const at::Tensor& output, const Batch& batch);

  /// The metrics of summed counts; the first one is the one that stands in the progress lines.
  [[nodiscard]] virtual std::vector<Metric> metrics(const at::Tensor& counts) const;

  /// More words about summed counts, for the end of an evaluation; may be empty.
  [[nodiscard]] virtual std::string report(const at::Tensor& /*counts*/) const { return ""; }

  /// What gathers an evaluation whose figures are no sums over samples; null: count() and metrics() do.
  [[nodiscard]] virtual std::unique_ptr<Tally> make_tally() const;

  /// What is kept of a batch whose loss is not finite, for inspection: without an override data, target and indices.
  [[nodiscard]] virtual StateDict batch_state(const Batch& batch) const;

  /// One line for the start banner ("conv7, 19,072,400 parameters" gets its number from the Trainer).
  [[nodiscard]] virtual std::string model_name() const = 0;
};

}  // namespace lockstep

#pragma GCC visibility pop
