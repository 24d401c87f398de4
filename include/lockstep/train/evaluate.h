// SPDX-License-Identifier: Apache-2.0
// Evaluation over the ranks of a job: each sample counts once, whatever the world size.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/job.h"
#include "lockstep/train/tally.h"
#include "lockstep/train/task.h"

#pragma GCC visibility push(default)

namespace lockstep {

struct EvaluateOptions {
  std::int64_t batch_size = 64;
  std::int64_t workers = 2;
  std::int64_t prefetch_factor = 2;
  double loader_timeout_s = 0;    ///< seconds that it waits for a batch; 0: for ever. Needs workers
  bool skip_bad_samples = false;  ///< leave out what cannot be read; Evaluation::samples counts it all the same
  std::string amp = "none";       ///< none, bf16
  bool channels_last = true;      ///< images in memory as [N, H, W, C]
  /// Parts into which the samples are divided; 0: the world size. The result depends on it in the last bits where
  /// counts are no whole numbers, and on nothing else.
  int replicas = 0;
  /// Called after each batch with the samples of this rank that are done and how many it has.
  std::function<void(std::int64_t done, std::int64_t total)> progress = nullptr;
};

struct Evaluation {
  std::int64_t samples = 0;  ///< over all ranks
  double seconds = 0;
  at::Tensor counts;             ///< the task's counts, summed over all ranks; undefined where it has a tally
  std::shared_ptr<Tally> tally;  ///< the task's, where it has one, after its metrics()
  std::vector<Metric> metrics;
};

/// Runs `model` in evaluation mode over `dataset` and puts it back into its mode.
/// Collective: yes. Blocks: yes. Throws: what the data set throws; DataError where the set is empty.
[[nodiscard]] Evaluation evaluate(const Job& job, Task& task, torch::nn::Module& model,
                                  const std::shared_ptr<Dataset>& dataset, const EvaluateOptions& options);

/// The task's own words about it; may be empty.
[[nodiscard]] std::string report_of(const Task& task, const Evaluation& evaluation);

/// "string_accuracy 0.914  char_accuracy 0.978".
[[nodiscard]] std::string to_text(const std::vector<Metric>& metrics);

/// {"string_accuracy": 0.914, "char_accuracy": 0.978}
[[nodiscard]] std::string to_json(const std::vector<Metric>& metrics);

}  // namespace lockstep

#pragma GCC visibility pop
