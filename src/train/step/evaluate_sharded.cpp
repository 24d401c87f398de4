// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/evaluate_sharded.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/trace.h"
#include "lockstep/optim/autocast.h"
#include "train/step/evaluation_parts.h"

namespace lockstep {
namespace {

/// The first samples of a set, in order.
class FirstSamples final : public Sampler {
 public:
  explicit FirstSamples(std::int64_t count) : count_(count) {}
  [[nodiscard]] std::vector<std::int64_t> indices(std::int64_t /*epoch*/) const override {
    std::vector<std::int64_t> all(static_cast<std::size_t>(count_));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  [[nodiscard]] std::int64_t size() const noexcept override { return count_; }

 private:
  std::int64_t count_;
};

void check(const DataLoaderOptions& options) {
  const char* wrong = options.shuffle            ? "shuffle"
                      : options.sampler          ? "a sampler"
                      : options.batch_sampler    ? "a batch sampler"
                      : options.drop_last        ? "drop_last"
                      : options.elastic          ? "elastic"
                      : options.shard.count != 1 ? "a shard"
                                                 : nullptr;
  if (wrong != nullptr) {
    throw UsageError(fmt::format("evaluate_sharded reads each sample once, but the options set {}", wrong),
                     "omit it: the ranks divide the data set in its own order");
  }
  if (options.batch_size < 1) {
    throw UsageError(fmt::format("data loader: batch_size is {}, must be at least 1", options.batch_size));
  }
}

/// Returns a float64 row: the counts, and the number of samples.
at::Tensor row_of(const CountBatch& count, const Batch& batch) {
  const at::Tensor counted = fault::in_section("metrics of the evaluation", [&] { return count(batch); });
  if (!counted.defined()) {
    throw UsageError("evaluate_sharded: the function did not return a tensor for a batch", "return the numbers to sum");
  }
  const at::Tensor numbers = counted.detach().to(at::kDouble).flatten();
  return at::cat({numbers, at::full({1}, static_cast<double>(batch.size), numbers.options())});
}

/// Returns the rows of this rank's batches, in order. The row of a batch whose samples were all skipped is undefined.
std::vector<at::Tensor> rows_of(const DatasetHandle& dataset, DataLoaderOptions options, ReplicaSpan block,
                                const CountBatch& count, const train::BatchSeeds& seeds) {
  std::vector<at::Tensor> rows(static_cast<std::size_t>(block.size()));
  const std::shared_ptr<Dataset>& set = dataset.get();
  const std::int64_t size = set->size();
  const std::int64_t batch_size = options.batch_size;
  const std::int64_t end = std::min(size, block.end * batch_size);
  if (block.begin * batch_size >= end) return rows;
  options.sampler = std::make_shared<FirstSamples>(end);
  options.remainder = Remainder::kKeep;
  DataLoader loader(set, std::move(options));
  // The batches keep the numbers that they have in one process: a collate function draws random numbers by them.
  for (const Batch& batch : loader.epoch(0, block.begin)) {
    seeds.begin(0, batch.step);
    rows[static_cast<std::size_t>(batch.step - block.begin)] = row_of(count, batch);
  }
  // The host waits for a GPU only here.
  for (at::Tensor& row : rows) row = row.defined() ? row.cpu() : row;
  return rows;
}

}  // namespace

double ShardedEvaluation::mean(std::size_t number) const {
  if (number >= sums.size()) {
    throw UsageError(fmt::format("number {} is out of range: the evaluation summed {} numbers", number, sums.size()));
  }
  return sums[number] / static_cast<double>(samples);
}

ShardedEvaluation evaluate_sharded(const Job& job, torch::nn::Module& model, const DatasetHandle& dataset,
                                   const DataLoaderOptions& options, const CountBatch& count) {
  check(options);
  const trace::Span span({.name = "evaluate"});
  const train::EvalMode mode(model);
  const NoGrad no_grad;
  const train::BatchSeeds seeds(job.device(), options.seed);
  const std::shared_ptr<Dataset>& set = dataset.get();
  const std::int64_t batches = (set->size() + options.batch_size - 1) / options.batch_size;
  // Empty parts after the last batch do not change the summation order (comm/replicas.h).
  const int parts = static_cast<int>(std::max<std::int64_t>(batches, job.world_size()));
  const ReplicaSpan block = replicas_of_rank(job.rank(), job.world_size(), parts);
  const at::Tensor sums = train::sum_over_parts(job.group(), rows_of(set, options, block, count, seeds), block, parts);
  const auto* numbers = sums.data_ptr<double>();
  const std::int64_t counted = sums.numel() - 1;
  return {.sums = {numbers, numbers + counted}, .samples = static_cast<std::int64_t>(numbers[counted])};
}

}  // namespace lockstep
