// SPDX-License-Identifier: Apache-2.0
// Evaluation for your own loop, divided among the ranks of a job: each sample counts once, and the result is bit for
// bit the same on any number of ranks. With a Task, use evaluate() (evaluate.h).
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/comm/job.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/loader.h"

namespace torch::nn {
class Module;  // torch/nn/module.h takes 6 s to compile, and a caller with a network includes it anyway
}

#pragma GCC visibility push(default)

namespace lockstep {

/// Returns the counts of a batch, such as the number of correct predictions: a scalar or a row of numbers of any type,
/// of the same length for every batch. They are summed in float64.
using CountBatch = std::function<at::Tensor(const Batch& batch)>;

/// The result of an evaluation over all ranks, the same on every rank.
struct ShardedEvaluation {
  std::vector<double> sums;  ///< the counts, summed over all samples
  std::int64_t samples = 0;  ///< number of samples; each was evaluated once

  /// Returns the mean of count `number` over the samples. Throws: UsageError if there is no such count.
  [[nodiscard]] double mean(std::size_t number = 0) const;
};

/// Runs `count` on each batch of `dataset`, with `model` in evaluation mode and without gradients, and sums its results
/// over all ranks. The batches are the same as in one process that reads the set in order, and each rank takes
/// consecutive batches. The ranks' parts differ by at most one batch, and the last ranks may have none. The counts are
/// summed in a tree over the batches, so the result's bits depend on the batch size and not on the number of ranks. The
/// mode of each module of `model` is then restored.
///
/// Before each batch, the default random generators are seeded by `options.seed` and the batch's number, so a network
/// that draws in evaluation mode (dropout that stays on) draws the same on any number of ranks; another seed gives
/// other numbers. At the end, the generators of the CPU and of the job's device are as before.
///
/// `options` are the options of the loader that reads the set. They may not change the order or the selection of the
/// samples: no shuffle, sampler, batch_sampler, shard, drop_last or elastic.
/// Collective: yes. Blocks: yes. `count` may not communicate. The buffers of `model` must be equal on all ranks; if you
///             pass the wrapper, the function copies those of rank 0.
/// Throws:     UsageError for such an option, and if `count` returns a different number of values than before;
///             DataError if the set is empty; anything the data set or `count` throws.
/// Example:    const auto found = lockstep::evaluate_sharded(job, model, set, {.batch_size = 64}, [&](auto& batch) {
///               return model(batch.data).argmax(1).eq(batch.target).sum();
///             });
///             job.print("accuracy {:.4f}", found.mean());
[[nodiscard]] ShardedEvaluation evaluate_sharded(const Job& job, torch::nn::Module& model, const DatasetHandle& dataset,
                                                 const DataLoaderOptions& options, const CountBatch& count);

/// A wrapper such as DistributedDataParallel.
template <class T>
concept WrapsModule = requires(T& wrapper) {
  wrapper.sync_buffers();
  wrapper.module();
};

/// The same with the wrapped network, after every rank has copied rank 0's buffers.
template <WrapsModule Wrapper>
[[nodiscard]] ShardedEvaluation evaluate_sharded(const Job& job, Wrapper& model, const DatasetHandle& dataset,
                                                 const DataLoaderOptions& options, const CountBatch& count) {
  model.sync_buffers();
  return evaluate_sharded(job, static_cast<torch::nn::Module&>(model.module()), dataset, options, count);
}

}  // namespace lockstep

#pragma GCC visibility pop
