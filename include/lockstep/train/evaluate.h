// SPDX-License-Identifier: Apache-2.0
// Evaluation across the ranks of a job: each sample counts once at any world size.
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

/// How evaluate() reads and computes.
struct EvaluateOptions {
  std::int64_t batch_size = 64;      ///< samples per batch
  std::int64_t workers = 2;          ///< loader threads
  std::int64_t prefetch_factor = 2;  ///< batches prefetched per worker
  double loader_timeout_s = 0;       ///< seconds to wait for a batch; 0: forever; requires workers
  bool skip_bad_samples = false;     ///< skips samples that cannot be read; Evaluation::samples still counts them
  std::string amp = "none";          ///< none, bf16
  bool channels_last = true;         ///< images in memory as [N, H, W, C]
  bool pin_memory = true;            ///< page-locked batches, so that loader workers can start copies to a GPU
  bool keep_all = false;             ///< Tally::keep_all()
  /// Number of parts into which the samples are divided; 0: the world size. If counts are not whole numbers, the last
  /// bits of the result depend only on this number.
  int replicas = 0;
  /// Seed of the random numbers that the network draws, if it draws any in evaluation mode. Each batch of each part has
  /// its own numbers, which do not depend on the number of ranks. Another seed gives other numbers.
  std::uint64_t seed = 0;
  /// A function that computes Task::network_function() in place of the model, without amp (Task::run_exported); empty:
  /// the model computes it.
  nn::TensorFunction network = nullptr;
  /// Called after each batch with the number of this rank's samples done so far and the total.
  std::function<void(std::int64_t done, std::int64_t total)> progress = nullptr;
};

/// The result of an evaluation, the same on every rank.
struct Evaluation {
  std::int64_t samples = 0;      ///< number of samples over all ranks, including skipped ones
  std::int64_t skipped = 0;      ///< number of samples over all ranks that could not be read and were skipped
  double seconds = 0;            ///< duration of the evaluation
  at::Tensor counts;             ///< the task's counts, summed over all ranks; undefined if the task has a tally
  std::shared_ptr<Tally> tally;  ///< the task's tally, if it has one; its metrics() has been called
  std::vector<Metric> metrics;   ///< the task's metrics
};

/// Runs `model` in evaluation mode over `dataset`, then restores the model's mode and the default random generators of
/// the CPU and of the job's device.
/// Collective: yes. Blocks: yes. Throws: the data set's errors; DataError if the set is empty.
[[nodiscard]] Evaluation evaluate(const Job& job, Task& task, torch::nn::Module& model,
                                  const std::shared_ptr<Dataset>& dataset, const EvaluateOptions& options);

/// Returns the task's own report on the evaluation; may be empty.
[[nodiscard]] std::string report_of(const Task& task, const Evaluation& evaluation);

/// Returns "string_accuracy 0.914  char_accuracy 0.978".
[[nodiscard]] std::string to_text(const std::vector<Metric>& metrics);

/// Returns {"string_accuracy": 0.914, "char_accuracy": 0.978}.
[[nodiscard]] std::string to_json(const std::vector<Metric>& metrics);

}  // namespace lockstep

#pragma GCC visibility pop
