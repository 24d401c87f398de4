// SPDX-License-Identifier: Apache-2.0
// Task: what a user gives to the Trainer. Data, model, loss and metrics; the Trainer brings everything else.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep {

/// A figure of an evaluation, such as {"string_accuracy", 0.914}.
struct Metric {
  std::string name;
  double value = 0;
  bool lower_is_better = false;  ///< as a loss; decides what is the best checkpoint
};

/// One training problem. Every method is called by the thread that trains; none communicates.
/// Example: recipes/captcha/task.cpp.
class Task {
 public:
  virtual ~Task() = default;

  /// The samples under `folder`, for training or evaluation. Throws: DataError naming the folder or file.
  [[nodiscard]] virtual std::shared_ptr<Dataset> make_dataset(const std::string& folder) = 0;

  /// The network with fresh weights; libtorch's generator has been seeded.
  [[nodiscard]] virtual std::shared_ptr<torch::nn::Module> make_model() = 0;

  /// The network's output for a batch. Runs under Autocast where amp is on.
  [[nodiscard]] virtual at::Tensor forward(torch::nn::Module& model, const Batch& batch) = 0;

  /// A scalar, the mean over the batch's samples. Runs outside Autocast; `output` may be bfloat16.
  [[nodiscard]] virtual at::Tensor loss(const at::Tensor& output, const Batch& batch) = 0;

  /// Counts of a batch in evaluation, float64, one dimension, of the same length for every batch: they are summed over
  /// batches and ranks.
  [[nodiscard]] virtual at::Tensor count(const at::Tensor& output, const Batch& batch) = 0;

  /// The metrics of summed counts; the first one is the one that stands in the progress lines.
  [[nodiscard]] virtual std::vector<Metric> metrics(const at::Tensor& counts) const = 0;

  /// More words about summed counts, for the end of an evaluation; may be empty.
  [[nodiscard]] virtual std::string report(const at::Tensor& /*counts*/) const { return ""; }

  /// One line for the start banner ("conv7, 19,072,400 parameters" gets its number from the Trainer).
  [[nodiscard]] virtual std::string model_name() const = 0;
};

}  // namespace lockstep
