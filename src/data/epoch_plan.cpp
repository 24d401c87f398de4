// SPDX-License-Identifier: Apache-2.0
#include "data/epoch_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/deal.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep::data {
namespace {

std::vector<std::int64_t> whole_order(std::int64_t set_size, const DataLoaderOptions& options, std::int64_t epoch) {
  if (options.sampler) return options.sampler->indices(epoch);
  if (!options.shuffle) return SequentialSampler(set_size).indices(epoch);
  return RandomSampler(set_size, {.seed = options.seed}).indices(epoch);
}

void check_indices(const std::vector<std::int64_t>& indices, std::int64_t set_size) {
  for (const std::int64_t index : indices) {
    if (index >= 0 && index < set_size) continue;
    throw UsageError(fmt::format("the sampler returned index {} of a set with {} samples", index, set_size));
  }
}

EpochPlan batches_of_sampler(const DataLoaderOptions& options, std::int64_t epoch) {
  return EpochPlan(deal(options.batch_sampler->batches(epoch), options.shard, options.remainder));
}

void check_ranges(const DataLoaderOptions& options) {
  const auto at_least = [](const char* name, std::int64_t value, std::int64_t least) {
    if (value < least) throw UsageError(fmt::format("data loader: {} is {}, must be at least {}", name, value, least));
  };
  at_least("batch_size", options.batch_size, 1);
  at_least("workers", options.workers, 0);
  at_least("prefetch_factor", options.prefetch_factor, 1);
  if (!(options.timeout_s >= 0)) {
    throw UsageError(fmt::format("data loader: timeout_s is {} s, must be 0 (none) or more", options.timeout_s));
  }
  const ShardSpec& shard = options.shard;
  if (shard.count < 1 || shard.index < 0 || shard.index >= shard.count) {
    throw UsageError(
        fmt::format("shard {} of {} does not exist: a shard's index is 0 .. count - 1", shard.index, shard.count));
  }
}

void check_sampler(const DataLoaderOptions& options) {
  if (options.sampler && options.shuffle) {
    throw UsageError("data loader: shuffle and a sampler are mutually exclusive", "RandomSampler shuffles");
  }
  if (options.batch_sampler && (options.sampler || options.shuffle || options.drop_last)) {
    throw UsageError("data loader: a batch sampler cannot be combined with shuffle, sampler or drop_last",
                     "omit them: the batch sampler determines the order and size of the batches");
  }
}

}  // namespace

EpochPlan::EpochPlan(std::vector<std::int64_t> indices, std::int64_t batch_size, bool drop_last)
    : indices_(std::move(indices)) {
  const std::int64_t size = std::ssize(indices_);
  for (std::int64_t end = batch_size; end <= size; end += batch_size) starts_.push_back(end);
  if (drop_last) {
    indices_.resize(static_cast<std::size_t>(starts_.back()));
  } else if (starts_.back() < size) {
    starts_.push_back(size);
  }
}

EpochPlan::EpochPlan(const std::vector<std::vector<std::int64_t>>& batches) {
  for (const auto& batch : batches) {
    if (batch.empty()) throw UsageError("the batch sampler returned an empty batch");
    indices_.insert(indices_.end(), batch.begin(), batch.end());
    starts_.push_back(std::ssize(indices_));
  }
}

EpochSize epoch_size(std::int64_t set_size, const DataLoaderOptions& options) {
  if (options.batch_sampler) {
    return {.samples = 0, .batches = dealt_size(options.batch_sampler->size(), options.shard, options.remainder)};
  }
  const std::int64_t whole = options.sampler ? options.sampler->size() : set_size;
  const std::int64_t samples = dealt_size(whole, options.shard, options.remainder);
  const std::int64_t full = samples / options.batch_size;
  const bool more = samples % options.batch_size != 0 && !options.drop_last;
  return {.samples = samples, .batches = full + (more ? 1 : 0)};
}

EpochPlan plan_epoch(std::int64_t set_size, const DataLoaderOptions& options, std::int64_t epoch,
                     std::int64_t consumed) {
  EpochPlan plan;
  if (options.batch_sampler) {
    plan = batches_of_sampler(options, epoch);
  } else if (const auto order = whole_order(set_size, options, epoch); consumed > 0) {
    auto rest = std::span(order).subspan(std::min(static_cast<std::size_t>(consumed), order.size()));
    const auto in_step = static_cast<std::size_t>(options.shard.count * options.batch_size);
    if (options.drop_last) rest = rest.first(rest.size() - rest.size() % in_step);
    plan = EpochPlan(deal_rest(rest, options.shard, options.batch_size));
  } else {
    plan = {deal(order, options.shard, options.remainder), options.batch_size, options.drop_last};
  }
  check_indices(plan.indices(), set_size);
  return plan;
}

void check_options(std::int64_t set_size, const DataLoaderOptions& options) {
  check_ranges(options);
  check_sampler(options);
  const std::int64_t shards = options.shard.count;
  if (shards == 1 || options.remainder == Remainder::kKeep || options.sampler || options.batch_sampler) return;
  if (set_size < shards) {
    throw DataError(
        fmt::format("the data set has {} samples, fewer than the {} replicas that share it", set_size, shards),
        "train on fewer replicas, or with more samples");
  }
  if (set_size < shards * options.batch_size && options.shard.index == 0) {
    log::warn(
        "the data set has {} samples, fewer than one step of {} replicas x batch_size {} = {}: each replica's batch "
        "holds {}",
        set_size, shards, options.batch_size, shards * options.batch_size, (set_size + shards - 1) / shards);
  }
}

}  // namespace lockstep::data
