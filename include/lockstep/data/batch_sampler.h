// SPDX-License-Identifier: Apache-2.0
// Which indices make a batch together, where it is not simply the next ones of an order. Pure functions of the epoch.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/data/sampler.h"

#pragma GCC visibility push(default)

namespace lockstep {

using BatchIndices = std::vector<std::vector<std::int64_t>>;

/// All batches of an epoch: a DataLoader deals them out to its shards, the j-th to shard j modulo their number.
/// Thread-safe: must be.
class BatchSampler {
 public:
  virtual ~BatchSampler() = default;
  /// The same batches at each call with the same epoch, on every rank; none is empty.
  [[nodiscard]] virtual BatchIndices batches(std::int64_t epoch) const = 0;
  /// How many: the same in every epoch.
  [[nodiscard]] virtual std::int64_t size() const noexcept = 0;
};

/// Runs of `batch_size` indices of a sampler, as PyTorch's BatchSampler.
/// Source: torch.utils.data.BatchSampler
class SequentialBatches final : public BatchSampler {
 public:
  /// Throws: UsageError where the sampler is null or batch_size is below 1.
  SequentialBatches(std::shared_ptr<const Sampler> sampler, std::int64_t batch_size, bool drop_last = false);
  [[nodiscard]] BatchIndices batches(std::int64_t epoch) const override;
  [[nodiscard]] std::int64_t size() const noexcept override;

 private:
  std::shared_ptr<const Sampler> sampler_;
  std::int64_t batch_size_;
  bool drop_last_;
};

struct LengthBatchesOptions {
  std::int64_t batch_size = 1;
  std::vector<std::int64_t> boundaries;  ///< ascending: a sample of length n belongs to the first bucket with n <= it
  bool shuffle = true;                   ///< samples inside their bucket, then the batches
  std::uint64_t seed = 0;                ///< of epoch e: seed + e
  bool drop_last = false;                ///< leave out what does not fill a batch of its bucket
};

/// Batches of samples of like length, so that little of a padded batch is padding.
class LengthBatches final : public BatchSampler {
 public:
  /// `lengths`: one an index. Throws: UsageError where batch_size is below 1 or the boundaries do not ascend.
  LengthBatches(const std::vector<std::int64_t>& lengths, LengthBatchesOptions options);
  [[nodiscard]] BatchIndices batches(std::int64_t epoch) const override;
  [[nodiscard]] std::int64_t size() const noexcept override { return count_; }

 private:
  BatchIndices buckets_;  ///< the indices of each, ascending
  LengthBatchesOptions options_;
  std::int64_t count_ = 0;
};

}  // namespace lockstep

#pragma GCC visibility pop
