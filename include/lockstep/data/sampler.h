// SPDX-License-Identifier: Apache-2.0
// The order in which a set is read in each epoch, and each shard's part of it. All are pure functions of their
// arguments: nothing here loads or communicates.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/base/rank.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Yields the order of a whole set for each epoch; a DataLoader distributes it across shards. Thread-safe:
/// implementations must be.
class Sampler {
 public:
  virtual ~Sampler() = default;
  /// Returns the same indices on each call with the same epoch, on every rank.
  [[nodiscard]] virtual std::vector<std::int64_t> indices(std::int64_t epoch) const = 0;
  /// Returns the number of indices, which is the same in every epoch.
  [[nodiscard]] virtual std::int64_t size() const noexcept = 0;
};

/// Yields 0, 1, 2, ...
class SequentialSampler final : public Sampler {
 public:
  /// Throws: UsageError if size is negative.
  explicit SequentialSampler(std::int64_t size);
  [[nodiscard]] std::vector<std::int64_t> indices(std::int64_t epoch) const override;
  [[nodiscard]] std::int64_t size() const noexcept override { return size_; }

 private:
  std::int64_t size_;
};

/// The options of RandomSampler.
struct RandomSamplerOptions {
  std::uint64_t seed = 0;    ///< epoch e is shuffled with the seed seed + e
  bool replacement = false;  ///< an index may be drawn again
  std::int64_t count = 0;    ///< number of indices per epoch; 0: the set's size
};

/// Yields the indices of PyTorch's RandomSampler with a generator seeded with seed + epoch. Without replacement, a
/// `count` larger than the set continues with further random orders of the whole set. Source:
/// torch.utils.data.RandomSampler
class RandomSampler final : public Sampler {
 public:
  /// Throws: UsageError if size or count is negative, or count is not 0 for an empty set.
  explicit RandomSampler(std::int64_t size, RandomSamplerOptions options = {});
  [[nodiscard]] std::vector<std::int64_t> indices(std::int64_t epoch) const override;
  [[nodiscard]] std::int64_t size() const noexcept override { return options_.count; }

 private:
  std::int64_t size_;
  RandomSamplerOptions options_;
};

/// Yields indices drawn in proportion to their weights, as PyTorch's WeightedRandomSampler does with a generator seeded
/// with seed + epoch. Source: torch.utils.data.WeightedRandomSampler
class WeightedSampler final : public Sampler {
 public:
  /// `weights` has one non-negative number per index. Throws: UsageError if a weight is negative or not finite, if all
  /// are 0, or if, without replacement, `count` exceeds the number of positive weights.
  explicit WeightedSampler(std::vector<double> weights, RandomSamplerOptions options = {.replacement = true});
  [[nodiscard]] std::vector<std::int64_t> indices(std::int64_t epoch) const override;
  [[nodiscard]] std::int64_t size() const noexcept override { return options_.count; }

 private:
  std::vector<double> weights_;
  RandomSamplerOptions options_;
};

/// The options of DistributedSampler.
struct SamplerOptions {
  bool shuffle = true;     ///< a new order in each epoch; false: the set's order
  std::uint64_t seed = 0;  ///< epoch e is shuffled with the seed seed + e
  bool drop_last = false;  ///< drops the remainder instead of padding it to equal parts
};

/// Yields exactly the indices of PyTorch's DistributedSampler: equal parts with stride `shard.count`, padded by
/// repeating from the start. Thread-safe: yes. Source: torch.utils.data.distributed.DistributedSampler
class DistributedSampler {
 public:
  /// `size` is the number of samples in the set, 0 or more.
  /// Throws: UsageError if size is negative or the shard is not 0 <= index < count.
  explicit DistributedSampler(std::int64_t size, ShardSpec shard = {}, SamplerOptions options = {});

  /// Returns this shard's indices in `epoch`, in order. Cost: O(size) time and memory to shuffle.
  [[nodiscard]] std::vector<std::int64_t> indices(std::int64_t epoch) const;

  /// Returns the number of indices of a shard, the same for all shards.
  [[nodiscard]] std::int64_t size() const noexcept { return part_; }

 private:
  std::int64_t total_;
  std::int64_t part_;
  ShardSpec shard_;
  SamplerOptions options_;
};

/// Yields each index on exactly one shard, in order and unpadded: in evaluation no sample may count twice. Shards
/// differ by at most one index, so no collective may depend on the number of batches. Thread-safe: yes.
class EvaluationSampler {
 public:
  /// Throws: the UsageErrors of DistributedSampler.
  explicit EvaluationSampler(std::int64_t size, ShardSpec shard = {});

  /// Returns this shard's indices, in order.
  [[nodiscard]] std::vector<std::int64_t> indices() const;
  /// Returns the number of this shard's indices.
  [[nodiscard]] std::int64_t size() const noexcept { return part_; }

 private:
  std::int64_t part_;
  ShardSpec shard_;
};

/// Returns one shard's indices, step by step, for the rest of an epoch after the number of shards has changed. Each
/// step takes the next shards x batch_size indices and distributes them one by one over the shards. Every index of
/// `rest` occurs exactly once over all shards, and all shards have the same number of steps: if fewer indices than
/// shards are left for the last step, they join the previous step, whose batches are then larger by at most one.
/// Indices are repeated only if `rest` itself is smaller than the number of shards. Source: the resharding of
/// TorchElastic's ElasticDistributedSampler, which pads instead
[[nodiscard]] std::vector<std::vector<std::int64_t>> deal_rest(std::span<const std::int64_t> rest, ShardSpec shard,
                                                               std::int64_t batch_size);

}  // namespace lockstep

#pragma GCC visibility pop
