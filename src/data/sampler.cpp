// SPDX-License-Identifier: Apache-2.0
// PyTorch's DistributedSampler, index for index: its random permutation comes from a CPU generator seeded seed + epoch.
#include "lockstep/data/sampler.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/Tensor.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randperm.h>
#include <fmt/format.h>

#include <numeric>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

void check(std::int64_t size, const ShardSpec& shard) {
  if (size < 0) throw UsageError(fmt::format("a sampler cannot have {} samples", size));
  if (shard.count < 1 || shard.index < 0 || shard.index >= shard.count) {
    throw UsageError(
        fmt::format("shard {} of {} does not exist: a shard's index is 0 .. count - 1", shard.index, shard.count));
  }
}

std::vector<std::int64_t> whole_order(std::int64_t size, const SamplerOptions& options, std::int64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  if (!options.shuffle) {
    std::iota(order.begin(), order.end(), std::int64_t{0});
    return order;
  }
  const at::Generator generator = at::detail::createCPUGenerator(options.seed + static_cast<std::uint64_t>(epoch));
  const at::Tensor permutation = at::randperm(size, generator, at::TensorOptions().dtype(at::kLong));
  const auto* values = permutation.data_ptr<std::int64_t>();
  order.assign(values, values + size);
  return order;
}

}  // namespace

DistributedSampler::DistributedSampler(std::int64_t size, ShardSpec shard, SamplerOptions options)
    : total_(size), part_(0), shard_(shard), options_(options) {
  check(size, shard);
  part_ = options.drop_last ? size / shard.count : (size + shard.count - 1) / shard.count;
}

std::vector<std::int64_t> DistributedSampler::indices(std::int64_t epoch) const {
  if (epoch < 0) throw UsageError(fmt::format("epoch {} does not exist: epochs count from 0", epoch));
  const std::vector<std::int64_t> order = whole_order(total_, options_, epoch);
  std::vector<std::int64_t> part(static_cast<std::size_t>(part_));
  for (std::int64_t i = 0; i < part_; ++i) {
    // Padding repeats the order from its start, as often as it takes: that is its position modulo the size.
    part[static_cast<std::size_t>(i)] = order[static_cast<std::size_t>((i * shard_.count + shard_.index) % total_)];
  }
  return part;
}

EvaluationSampler::EvaluationSampler(std::int64_t size, ShardSpec shard) : part_(0), shard_(shard) {
  check(size, shard);
  part_ = (size - shard.index + shard.count - 1) / shard.count;
  if (shard.index >= size) part_ = 0;
}

std::vector<std::int64_t> EvaluationSampler::indices() const {
  std::vector<std::int64_t> part(static_cast<std::size_t>(part_));
  for (std::int64_t i = 0; i < part_; ++i) part[static_cast<std::size_t>(i)] = i * shard_.count + shard_.index;
  return part;
}

}  // namespace lockstep
