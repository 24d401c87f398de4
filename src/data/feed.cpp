// SPDX-License-Identifier: Apache-2.0
#include "data/feed.h"

namespace lockstep::data {

std::optional<BatchTask> PlanFeed::next() {
  if (step_ >= plan_.size()) return std::nullopt;
  const auto indices = plan_.batch(step_);
  return BatchTask{epoch_, step_++, {indices.begin(), indices.end()}, {}};
}

StreamFeed::StreamFeed(std::shared_ptr<IterableDataset> set, const DataLoaderOptions& options, std::int64_t epoch,
                       std::int64_t first)
    : set_(std::move(set)), options_(options), stream_(set_->open(epoch, options_.shard)), epoch_(epoch) {
  while (step_ < first && next()) {
  }
}

std::optional<BatchTask> StreamFeed::next() {
  BatchTask task{epoch_, step_, {}, {}};
  while (!ended_ && std::ssize(task.makers) < options_.batch_size) {
    std::optional<SampleMaker> maker = stream_->next();
    if (!maker) {
      ended_ = true;
      break;
    }
    task.makers.push_back(std::move(*maker));
    task.indices.push_back(read_++ * options_.shard.count + options_.shard.index);
  }
  const bool short_one = std::ssize(task.makers) < options_.batch_size;
  if (task.makers.empty() || (short_one && options_.drop_last)) return std::nullopt;
  ++step_;
  return task;
}

}  // namespace lockstep::data
