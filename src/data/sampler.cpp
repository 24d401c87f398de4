// SPDX-License-Identifier: Apache-2.0
// PyTorch's DistributedSampler, index for index: its permutation comes from a CPU generator seeded with seed + epoch.
#include "lockstep/data/sampler.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/Tensor.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/deal.h"
#include "lockstep/base/error.h"

namespace lockstep {
namespace {

void check_size(std::int64_t size) {
  if (size < 0) throw UsageError(fmt::format("a sampler cannot have {} samples", size));
}

void check(std::int64_t size, const ShardSpec& shard) {
  check_size(size);
  if (shard.count < 1 || shard.index < 0 || shard.index >= shard.count) {
    throw UsageError(
        fmt::format("shard {} of {} does not exist: a shard's index is 0 .. count - 1", shard.index, shard.count));
  }
}

at::Generator generator_of(std::uint64_t seed, std::int64_t epoch) {
  if (epoch < 0) throw UsageError(fmt::format("epoch {} does not exist: epochs are numbered from 0", epoch));
  return at::detail::createCPUGenerator(seed + static_cast<std::uint64_t>(epoch));
}

void append(std::vector<std::int64_t>& to, const at::Tensor& indices, std::int64_t at_most) {
  const auto* values = indices.data_ptr<std::int64_t>();
  to.insert(to.end(), values, values + std::min(indices.numel(), at_most));
}

std::vector<std::int64_t> whole_order(std::int64_t size, const SamplerOptions& options, std::int64_t epoch) {
  if (!options.shuffle) return SequentialSampler(size).indices(epoch);
  return RandomSampler(size, {.seed = options.seed}).indices(epoch);
}

}  // namespace

SequentialSampler::SequentialSampler(std::int64_t size) : size_(size) { check_size(size); }

std::vector<std::int64_t> SequentialSampler::indices(std::int64_t /*epoch*/) const {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size_));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

RandomSampler::RandomSampler(std::int64_t size, RandomSamplerOptions options) : size_(size), options_(options) {
  check_size(size);
  check_size(options.count);
  if (options_.count == 0) options_.count = size;
  if (size == 0 && options_.count > 0) throw UsageError("cannot draw samples from an empty set");
}

std::vector<std::int64_t> RandomSampler::indices(std::int64_t epoch) const {
  const at::Generator generator = generator_of(options_.seed, epoch);
  constexpr std::int64_t kRun = 32;  // PyTorch draws with replacement in runs of 32
  std::vector<std::int64_t> order;
  order.reserve(static_cast<std::size_t>(options_.count));
  while (std::ssize(order) < options_.count) {
    const std::int64_t left = options_.count - std::ssize(order);
    const auto drawn = options_.replacement ? at::randint(0, size_, {std::min(left, kRun)}, generator, at::kLong)
                                            : at::randperm(size_, generator, at::TensorOptions().dtype(at::kLong));
    append(order, drawn, left);
  }
  return order;
}

WeightedSampler::WeightedSampler(std::vector<double> weights, RandomSamplerOptions options)
    : weights_(std::move(weights)), options_(options) {
  check_size(options.count);
  if (options_.count == 0) options_.count = std::ssize(weights_);
  std::int64_t positive = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (!std::isfinite(weights_[i]) || weights_[i] < 0) {
      throw UsageError(
          fmt::format("weight {} of sample {} is invalid: it must be finite and 0 or more", weights_[i], i));
    }
    positive += weights_[i] > 0 ? 1 : 0;
  }
  if (positive == 0) throw UsageError("no sample has a weight above 0");
  if (!options_.replacement && options_.count > positive) {
    throw UsageError(fmt::format("{} samples cannot be drawn without replacement: only {} have a weight above 0",
                                 options_.count, positive));
  }
}

std::vector<std::int64_t> WeightedSampler::indices(std::int64_t epoch) const {
  const at::Generator generator = generator_of(options_.seed, epoch);
  const at::Tensor weights = at::tensor(weights_, at::kDouble);
  std::vector<std::int64_t> order;
  append(order, at::multinomial(weights, options_.count, options_.replacement, generator), options_.count);
  return order;
}

DistributedSampler::DistributedSampler(std::int64_t size, ShardSpec shard, SamplerOptions options)
    : total_(size), part_(0), shard_(shard), options_(options) {
  check(size, shard);
  part_ = data::dealt_size(size, shard, options.drop_last ? Remainder::kDrop : Remainder::kPad);
}

std::vector<std::int64_t> DistributedSampler::indices(std::int64_t epoch) const {
  if (epoch < 0) throw UsageError(fmt::format("epoch {} does not exist: epochs are numbered from 0", epoch));
  return data::deal(whole_order(total_, options_, epoch), shard_,
                    options_.drop_last ? Remainder::kDrop : Remainder::kPad);
}

EvaluationSampler::EvaluationSampler(std::int64_t size, ShardSpec shard) : part_(0), shard_(shard) {
  check(size, shard);
  part_ = data::dealt_size(size, shard, Remainder::kKeep);
}

std::vector<std::int64_t> EvaluationSampler::indices() const {
  std::vector<std::int64_t> part(static_cast<std::size_t>(part_));
  for (std::int64_t i = 0; i < part_; ++i) part[static_cast<std::size_t>(i)] = i * shard_.count + shard_.index;
  return part;
}

std::vector<std::vector<std::int64_t>> deal_rest(std::span<const std::int64_t> rest, ShardSpec shard,
                                                 std::int64_t batch_size) {
  const std::int64_t left = std::ssize(rest);
  check(left, shard);
  if (batch_size < 1) throw UsageError(fmt::format("a batch cannot have {} samples", batch_size));
  std::vector<std::vector<std::int64_t>> steps;
  const std::int64_t in_step = shard.count * batch_size;
  for (std::int64_t begin = 0; begin < left;) {
    std::int64_t end = std::min(begin + in_step, left);
    if (left - end < shard.count) end = left;  // too few for a step of their own
    std::vector<std::int64_t>& batch = steps.emplace_back();
    for (std::int64_t i = begin + shard.index; i < end; i += shard.count) {
      batch.push_back(rest[static_cast<std::size_t>(i)]);
    }
    if (batch.empty()) batch.push_back(rest[static_cast<std::size_t>(shard.index % left)]);
    begin = end;
  }
  return steps;
}

}  // namespace lockstep
