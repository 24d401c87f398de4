// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/batch_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

void check_batch_size(std::int64_t batch_size) {
  if (batch_size < 1) throw UsageError(fmt::format("a batch cannot have {} samples", batch_size));
}

std::int64_t batches_of(std::int64_t samples, std::int64_t batch_size, bool drop_last) {
  return drop_last ? samples / batch_size : (samples + batch_size - 1) / batch_size;
}

void cut(const std::vector<std::int64_t>& indices, std::int64_t batch_size, bool drop_last, BatchIndices& batches) {
  const std::int64_t count = batches_of(std::ssize(indices), batch_size, drop_last);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto first = indices.begin() + i * batch_size;
    batches.emplace_back(first, first + std::min(batch_size, indices.end() - first));
  }
}

template <class T>
std::vector<T> in_order(const std::vector<T>& values, const std::vector<std::int64_t>& order) {
  std::vector<T> result;
  result.reserve(values.size());
  for (const std::int64_t i : order) result.push_back(values[static_cast<std::size_t>(i)]);
  return result;
}

}  // namespace

SequentialBatches::SequentialBatches(std::shared_ptr<const Sampler> sampler, std::int64_t batch_size, bool drop_last)
    : sampler_(std::move(sampler)), batch_size_(batch_size), drop_last_(drop_last) {
  if (sampler_ == nullptr) throw UsageError("a batch sampler needs a sampler");
  check_batch_size(batch_size);
}

BatchIndices SequentialBatches::batches(std::int64_t epoch) const {
  BatchIndices batches;
  cut(sampler_->indices(epoch), batch_size_, drop_last_, batches);
  return batches;
}

std::int64_t SequentialBatches::size() const noexcept { return batches_of(sampler_->size(), batch_size_, drop_last_); }

LengthBatches::LengthBatches(const std::vector<std::int64_t>& lengths, LengthBatchesOptions options)
    : options_(std::move(options)) {
  check_batch_size(options_.batch_size);
  const auto& boundaries = options_.boundaries;
  if (!std::ranges::is_sorted(boundaries, std::ranges::less_equal())) {
    throw UsageError(
        fmt::format("the boundaries of length buckets must be ascending: {}", fmt::join(boundaries, ", ")));
  }
  buckets_.resize(boundaries.size() + 1);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto bucket = std::ranges::lower_bound(boundaries, lengths[i]) - boundaries.begin();
    buckets_[static_cast<std::size_t>(bucket)].push_back(static_cast<std::int64_t>(i));
  }
  for (const auto& bucket : buckets_) count_ += batches_of(std::ssize(bucket), options_.batch_size, options_.drop_last);
}

BatchIndices LengthBatches::batches(std::int64_t epoch) const {
  BatchIndices batches;
  std::uint64_t seed = options_.seed;
  for (const auto& bucket : buckets_) {
    // Each bucket has its own seed: otherwise buckets of equal size would get the same order.
    const auto order = options_.shuffle ? RandomSampler(std::ssize(bucket), {.seed = seed}).indices(epoch)
                                        : SequentialSampler(std::ssize(bucket)).indices(epoch);
    seed += 0x9e3779b97f4a7c15U;
    cut(in_order(bucket, order), options_.batch_size, options_.drop_last, batches);
  }
  if (!options_.shuffle) return batches;
  return in_order(batches, RandomSampler(std::ssize(batches), {.seed = seed}).indices(epoch));
}

}  // namespace lockstep
