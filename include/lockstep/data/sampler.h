// SPDX-License-Identifier: Apache-2.0
// Which indices a shard reads in which epoch. Pure functions of their arguments: nothing here loads or communicates.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/base/rank.h"

namespace lockstep {

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

}  // namespace lockstep
