// SPDX-License-Identifier: Apache-2.0
// Batch samplers choose the samples of each batch, as a pure function of the epoch.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/data/sampler.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The indices of the samples of each batch of an epoch.
using BatchIndices = std::vector<std::vector<std::int64_t>>;

/// Yields all batches of an epoch. A DataLoader gives batch j to shard j modulo shard.count. Thread-safe:
/// implementations must be.
class BatchSampler {
 public:
  virtual ~BatchSampler() = default;
  /// Returns the same batches on each call with the same epoch, on every rank; none is empty.
  [[nodiscard]] virtual BatchIndices batches(std::int64_t epoch) const = 0;
  /// Returns the number of batches, which is the same in every epoch.
  [[nodiscard]] virtual std::int64_t size() const noexcept = 0;
};

/// Yields consecutive groups of `batch_size` indices of a sampler, as PyTorch's BatchSampler does.
/// Source: torch.utils.data.BatchSampler
class SequentialBatches final : public BatchSampler {
 public:
  /// Throws: UsageError if the sampler is null or batch_size is below 1.
  SequentialBatches(std::shared_ptr<const Sampler> sampler, std::int64_t batch_size, bool drop_last = false);
  [[nodiscard]] BatchIndices batches(std::int64_t epoch) const override;
  [[nodiscard]] std::int64_t size() const noexcept override;

 private:
  std::shared_ptr<const Sampler> sampler_;
  std::int64_t batch_size_;
  bool drop_last_;
};

/// The options of LengthBatches.
struct LengthBatchesOptions {
  std::int64_t batch_size = 1;           ///< samples per batch
  std::vector<std::int64_t> boundaries;  ///< ascending: a sample of length n belongs to the first bucket with n <=
                                         ///< boundary
  bool shuffle = true;                   ///< shuffles samples within their bucket, then the batches
  std::uint64_t seed = 0;                ///< the seed of epoch e is seed + e
  bool drop_last = false;                ///< drops the last samples of a bucket if they do not fill a batch
};

/// Yields batches of samples of similar length, so that padded batches contain little padding.
class LengthBatches final : public BatchSampler {
 public:
  /// `lengths` has one entry per index. Throws: UsageError if batch_size is below 1 or boundaries are not ascending.
  LengthBatches(const std::vector<std::int64_t>& lengths, LengthBatchesOptions options);
  [[nodiscard]] BatchIndices batches(std::int64_t epoch) const override;
  [[nodiscard]] std::int64_t size() const noexcept override { return count_; }

 private:
  BatchIndices buckets_;  ///< the indices of each bucket, ascending
  LengthBatchesOptions options_;
  std::int64_t count_ = 0;
};

}  // namespace lockstep

#pragma GCC visibility pop
