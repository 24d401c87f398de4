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

}  // namespace

std::shared_ptr<IterableDataset> make_iterable(
    std::function<std::function<std::optional<SampleMaker>()>(std::int64_t epoch, ShardSpec shard)> open) {
  return std::make_shared<FunctionIterable>(std::move(open));
}

}  // namespace lockstep
