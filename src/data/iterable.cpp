// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/iterable.h"

#include <utility>

namespace lockstep {
namespace {

class FunctionStream final : public SampleStream {
 public:
  explicit FunctionStream(std::function<std::optional<SampleMaker>()> next) : next_(std::move(next)) {}
  std::optional<SampleMaker> next() override { return next_(); }

 private:
  std::function<std::optional<SampleMaker>()> next_;
};

class FunctionIterable final : public IterableDataset {
 public:
  using Open = std::function<std::function<std::optional<SampleMaker>()>(std::int64_t, ShardSpec)>;
  explicit FunctionIterable(Open open) : open_(std::move(open)) {}
  std::unique_ptr<SampleStream> open(std::int64_t epoch, ShardSpec shard) override {
    return std::make_unique<FunctionStream>(open_(epoch, shard));
  }

 private:
  Open open_;
};

class EveryNth final : public SampleStream {
 public:
  EveryNth(std::unique_ptr<SampleStream> inner, ShardSpec shard) : inner_(std::move(inner)), shard_(shard) {}
  std::optional<SampleMaker> next() override {
    while (std::optional<SampleMaker> maker = inner_->next()) {
      if (at_++ % shard_.count == shard_.index) return maker;
    }
    return std::nullopt;
  }

 private:
  std::unique_ptr<SampleStream> inner_;
  ShardSpec shard_;
  std::int64_t at_ = 0;
};

}  // namespace

std::shared_ptr<IterableDataset> make_iterable(
    std::function<std::function<std::optional<SampleMaker>()>(std::int64_t epoch, ShardSpec shard)> open) {
  return std::make_shared<FunctionIterable>(std::move(open));
}

std::unique_ptr<SampleStream> every_nth(std::unique_ptr<SampleStream> stream, ShardSpec shard) {
  return std::make_unique<EveryNth>(std::move(stream), shard);
}

}  // namespace lockstep
