// SPDX-License-Identifier: Apache-2.0
// Evaluation for your own loop, divided over the ranks of a job: each sample counts once, and the result has the same
// bits on any number of ranks. With a Task, evaluate() does this (evaluate.h).
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

/// Returns the counts of a batch, such as the number of right answers: a scalar or a row of numbers of any type, as
/// many for every batch. They are summed in float64.
using CountBatch = std::function<at::Tensor(const Batch& batch)>;

/// The result of an evaluation over all ranks, the same on every rank.
struct ShardedEvaluation {
  std::vector<double> sums;  ///< the counts, summed over all samples
  std::int64_t samples = 0;  ///< how many samples were evaluated, each once

  /// Returns the mean over the samples. Throws: UsageError if `number` has no sum.
  [[nodiscard]] double mean(std::size_t number = 0) const;
};

/// Runs `count` on each batch of `dataset`, with `model` in evaluation mode and without gradients, and sums its results
/// over all ranks. The batches are those of one process that reads the set in order, and each rank takes a run of
/// neighbouring ones: parts differ by a batch, and the last ranks may have none. Sums go in tree order over the
/// batches, so that bits depend on the batch size and not on the number of ranks. Afterwards each module of `model` has
/// its mode again.
///
/// `options` are those of the loader that reads the set, without an order and a share of its own: no shuffle, sampler,
/// batch_sampler, shard, drop_last and elastic.
/// Collective: yes. Blocks: yes. `count` may not communicate. The buffers of `model` are equal on all ranks: pass the
///             wrapper, which makes them so.
/// Throws:     UsageError for such an option, and if `count` returns another number of values than before; DataError if
///             the set is empty; what the data set and `count` throw.
/// Example:    const auto found = lockstep::evaluate_sharded(job, model, test_set, {.batch_size = 64}, [&](auto& batch)
/// {
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

/// Does the same with the network inside, after every rank has taken rank 0's buffers.
template <WrapsModule Wrapper>
[[nodiscard]] ShardedEvaluation evaluate_sharded(const Job& job, Wrapper& model, const DatasetHandle& dataset,
                                                 const DataLoaderOptions& options, const CountBatch& count) {
  model.sync_buffers();
  return evaluate_sharded(job, static_cast<torch::nn::Module&>(model.module()), dataset, options, count);
}

}  // namespace lockstep

#pragma GCC visibility pop
