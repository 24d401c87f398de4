// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/stream_dataset.h"

#include <fmt/format.h>

#include "data/deal.h"
#include "data/shard_classes.h"
#include "lockstep/base/error.h"
#include "lockstep/data/sampler.h"

namespace lockstep {
namespace {

/// Reads one shard after another. All shards must have the same classes.
class ShardReader {
 public:
  ShardReader(std::vector<std::string> shards, const TarOptions& options)
      : shards_(std::move(shards)), options_(options) {}

  std::optional<AnnotatedImage> next() {
    while (true) {
      if (!open_ && at_ == shards_.size()) return std::nullopt;
      if (!open_) open_.emplace(shards_[at_++], options_);
      std::optional<AnnotatedImage> picture = open_->next();
      classes_.add(open_->class_names(), shards_[at_ - 1]);
      if (picture) return picture;
      open_.reset();
    }
  }

 private:
  std::vector<std::string> shards_;
  TarOptions options_;
  std::size_t at_ = 0;
  data::ShardClasses classes_;
  std::optional<TarStream> open_;
};

}  // namespace

PictureStream open_shards(const std::vector<std::string>& shards, const StreamOptions& options, std::int64_t epoch,
                          ShardSpec part) {
  const std::int64_t count = std::ssize(shards);
  if (count < part.count) {
    throw DataError(fmt::format("{} shards cannot be divided among {} replicas", count, part.count),
                    "write more, smaller shards, or open local ones as TarShards");
  }
  const auto order = options.shuffle ? RandomSampler(count, {.seed = options.seed}).indices(epoch)
                                     : SequentialSampler(count).indices(epoch);
  std::vector<std::string> mine;
  for (const std::int64_t i : data::deal(order, part, Remainder::kKeep)) {
    mine.push_back(shards[static_cast<std::size_t>(i)]);
  }
  return [reader = std::make_shared<ShardReader>(std::move(mine), options.tar)] { return reader->next(); };
}

}  // namespace lockstep
