// SPDX-License-Identifier: Apache-2.0
// Assigns samples to the batches of a shard's epoch, before anything is loaded.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/data/loader.h"

namespace lockstep::data {

/// The batches of one epoch of one shard.
class EpochPlan {
 public:
  EpochPlan() = default;
  /// Divides the indices into batches of `batch_size`. The last batch may be smaller, or is dropped if `drop_last`.
  EpochPlan(std::vector<std::int64_t> indices, std::int64_t batch_size, bool drop_last);
  explicit EpochPlan(const std::vector<std::vector<std::int64_t>>& batches);

  [[nodiscard]] std::int64_t size() const noexcept { return std::ssize(starts_) - 1; }
  [[nodiscard]] std::span<const std::int64_t> batch(std::int64_t step) const noexcept {
    const auto i = static_cast<std::size_t>(step);
    return std::span(indices_).subspan(static_cast<std::size_t>(starts_[i]),
                                       static_cast<std::size_t>(starts_[i + 1] - starts_[i]));
  }
  /// Returns the indices of all batches.
  [[nodiscard]] const std::vector<std::int64_t>& indices() const noexcept { return indices_; }

 private:
  std::vector<std::int64_t> indices_;
  std::vector<std::int64_t> starts_{0};
};

/// The length of an epoch, without its order.
struct EpochSize {
  std::int64_t samples = 0;  ///< samples of the shard, before drop_last; 0 (unknown) with a batch sampler
  std::int64_t batches = 0;
};
[[nodiscard]] EpochSize epoch_size(std::int64_t set_size, const DataLoaderOptions& options);

/// Returns the plan of `epoch`. `consumed` is the number of samples of the epoch that were already read, with a
/// different number of shards or batch_size; the rest is redistributed, and with drop_last its last step is dropped if
/// it is not full. Throws: UsageError if an index is not in the set.
[[nodiscard]] EpochPlan plan_epoch(std::int64_t set_size, const DataLoaderOptions& options, std::int64_t epoch,
                                   std::int64_t consumed = 0);

/// Throws: UsageError if an option is out of range, or options are mutually exclusive; DataError if the set has fewer
/// samples than shards. Warns if it has fewer than shards x batch_size samples.
void check_options(std::int64_t set_size, const DataLoaderOptions& options);

}  // namespace lockstep::data
