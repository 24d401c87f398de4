// SPDX-License-Identifier: Apache-2.0
// In which order a set is read in which epoch, and which part of it is a shard's. Pure functions of their arguments:
// nothing here loads or communicates.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/base/rank.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The order of a whole set, epoch by epoch: a DataLoader deals it out to its shards. Thread-safe: must be.
class Sampler {
 public:
  virtual ~Sampler() = default;
  /// The same indices at each call with the same epoch, on every rank.
  [[nodiscard]] virtual std::vector<std::int64_t> indices(std::int64_t epoch) const = 0;
  /// How many: the same in every epoch.
  [[nodiscard]] virtual std::int64_t size() const noexcept = 0;
};

/// 0, 1, 2, ...
class SequentialSampler final : public Sampler {
 public:
  /// Throws: UsageError where size is negative.
  explicit SequentialSampler(std::int64_t size);
  [[nodiscard]] std::vector<std::int64_t> indices(std::int64_t epoch) const override;
  [[nodiscard]] std::int64_t size() const noexcept override { return size_; }

 private:
  std::int64_t size_;
};

struct RandomSamplerOptions {
  std::uint64_t seed = 0;    ///< the order of epoch e comes from seed + e
  bool replacement = false;  ///< an index may come again
  std::int64_t count = 0;    ///< how many indices an epoch has; 0: the set's size
};

/// The indices of PyTorch's RandomSampler with a generator seeded seed + epoch. Without replacement a `count` beyond
/// the size goes through the set again in further random orders. Source: torch.utils.data.RandomSampler
class RandomSampler final : public Sampler {
 public:
  /// Throws: UsageError where size or count is negative, or count is not 0 for an empty set.
  explicit RandomSampler(std::int64_t size, RandomSamplerOptions options = {});
  [[nodiscard]] std::vector<std::int64_t> indices(std::int64_t epoch) const override;
  [[nodiscard]] std::int64_t size() const noexcept override { return options_.count; }

 private:
  std::int64_t size_;
  RandomSamplerOptions options_;
};

/// Indices drawn in proportion to their weights, as PyTorch's WeightedRandomSampler with a generator seeded seed +
/// epoch. Source: torch.utils.data.WeightedRandomSampler
class WeightedSampler final : public Sampler {
 public:
  /// `weights`: one an index, not negative. Throws: UsageError where one is negative or not finite, all are 0, or more
  /// indices are wanted without replacement than have a weight.
  explicit WeightedSampler(std::vector<double> weights, RandomSamplerOptions options = {.replacement = true});
  [[nodiscard]] std::vector<std::int64_t> indices(std::int64_t epoch) const override;
  [[nodiscard]] std::int64_t size() const noexcept override { return options_.count; }

 private:
  std::vector<double> weights_;
  RandomSamplerOptions options_;
};

struct SamplerOptions {
  bool shuffle = true;
  std::uint64_t seed = 0;  ///< the order of epoch e comes from seed + e
  bool drop_last = false;  ///< leave the remainder out, instead of padding it to equal parts
};

/// Exactly the indices of PyTorch's DistributedSampler: equal parts with stride `shard.count`, padded by repeating from
/// the start. Thread-safe: yes.
/// Source: torch.utils.data.distributed.DistributedSampler
class DistributedSampler {
 public:
  /// `size`: samples in the set, 0 or more.
  /// Throws: UsageError where size is negative or the shard is not 0 <= index < count.
  explicit DistributedSampler(std::int64_t size, ShardSpec shard = {}, SamplerOptions options = {});

  /// This shard's indices in `epoch`, in order.
  /// Cost: O(size) time and memory where it shuffles.
  [[nodiscard]] std::vector<std::int64_t> indices(std::int64_t epoch) const;

  /// How many indices a shard has: the same for all.
  [[nodiscard]] std::int64_t size() const noexcept { return part_; }

 private:
  std::int64_t total_;
  std::int64_t part_;
  ShardSpec shard_;
  SamplerOptions options_;
};

/// Each index on exactly one shard, in order and unpadded: for evaluation, where no sample counts twice. Parts differ
/// by at most one, so no collective may depend on the number of batches. Thread-safe: yes.
class EvaluationSampler {
 public:
  /// Throws: UsageError as DistributedSampler.
  explicit EvaluationSampler(std::int64_t size, ShardSpec shard = {});

  [[nodiscard]] std::vector<std::int64_t> indices() const;
  [[nodiscard]] std::int64_t size() const noexcept { return part_; }

 private:
  std::int64_t part_;
  ShardSpec shard_;
};

/// What one shard reads of the rest of an epoch, step by step, after the number of shards has changed: each step takes
/// the next shards x batch_size indices and deals them out in turn. Every index of `rest` comes exactly once over all
/// shards, and all shards have as many steps: a rest smaller than one index a shard joins the step before, whose
/// batches are then larger by at most one. Only where `rest` itself is smaller than the number of shards are its first
/// indices repeated. Source: the resharding of TorchElastic's ElasticDistributedSampler, which pads
[[nodiscard]] std::vector<std::vector<std::int64_t>> deal_rest(std::span<const std::int64_t> rest, ShardSpec shard,
                                                               std::int64_t batch_size);

}  // namespace lockstep

#pragma GCC visibility pop
