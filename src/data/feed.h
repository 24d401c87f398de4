// SPDX-License-Identifier: Apache-2.0
// The source of the next batch's samples: an epoch's plan, or a stream that is read in order.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "data/epoch_plan.h"
#include "lockstep/data/iterable.h"

namespace lockstep::data {

/// The samples of one batch, for one worker.
struct BatchTask {
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  std::vector<std::int64_t> indices;
  std::vector<SampleMaker> makers;  ///< for a stream, one per index; otherwise empty
};

/// Thread-safe: no; one thread at a time takes the next task.
class Feed {
 public:
  virtual ~Feed() = default;
  /// Returns the next task; none at the end.
  virtual std::optional<BatchTask> next() = 0;
  /// Returns the number of steps in the whole epoch; the largest int64 if it is unknown.
  [[nodiscard]] virtual std::int64_t end() const noexcept { return std::numeric_limits<std::int64_t>::max(); }
};

class PlanFeed final : public Feed {
 public:
  /// Starts at step `first`.
  PlanFeed(EpochPlan plan, std::int64_t epoch, std::int64_t first)
      : plan_(std::move(plan)), epoch_(epoch), step_(first) {}
  std::optional<BatchTask> next() override;
  [[nodiscard]] std::int64_t end() const noexcept override { return plan_.size(); }

 private:
  EpochPlan plan_;
  std::int64_t epoch_;
  std::int64_t step_;
};

/// Sample n of the stream has index n x shards + shard, which no other shard has.
/// Lifetime: it holds all that it uses, because an abandoned thread may still read after the loader is gone.
class StreamFeed final : public Feed {
 public:
  /// Opens the set, and skips the first `first` batches.
  StreamFeed(std::shared_ptr<IterableDataset> set, const DataLoaderOptions& options, std::int64_t epoch,
             std::int64_t first);
  std::optional<BatchTask> next() override;

 private:
  const std::shared_ptr<IterableDataset> set_;  ///< the stream may refer to it
  const DataLoaderOptions options_;
  std::unique_ptr<SampleStream> stream_;
  std::int64_t epoch_;
  std::int64_t step_ = 0;
  std::int64_t read_ = 0;
  bool ended_ = false;
};

}  // namespace lockstep::data
