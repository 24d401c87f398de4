// SPDX-License-Identifier: Apache-2.0
// Sets without an index or a known length, such as the output of a command: read in order by one thread, decoded by
// all.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "lockstep/base/rank.h"
#include "lockstep/data/dataset.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Turns what was read into a sample. Called once, by any worker, beside others.
using SampleMaker = std::function<Sample(SampleContext&)>;

/// One pass. One thread at a time calls next(), whatever the number of workers, so that the order does not depend on
/// it: it reads, and leaves decoding to the maker that it returns.
class SampleStream {
 public:
  virtual ~SampleStream() = default;
  /// None at the end. What it throws reaches the loop over the loader and ends the pass.
  virtual std::optional<SampleMaker> next() = 0;
};

/// Thread-safe: open() need not be.
class IterableDataset {
 public:
  virtual ~IterableDataset() = default;
  /// A pass over what shard `shard` reads in `epoch`: parts of different shards have nothing in common.
  virtual std::unique_ptr<SampleStream> open(std::int64_t epoch, ShardSpec shard) = 0;
};

/// A set from a callable (epoch, shard) -> callable () -> std::optional<SampleMaker>.
[[nodiscard]] std::shared_ptr<IterableDataset> make_iterable(
    std::function<std::function<std::optional<SampleMaker>()>(std::int64_t epoch, ShardSpec shard)> open);

/// `stream` cut for one shard of several, where the source itself cannot be cut: sample i goes to shard i modulo their
/// number, and each shard reads all.
[[nodiscard]] std::unique_ptr<SampleStream> every_nth(std::unique_ptr<SampleStream> stream, ShardSpec shard);

}  // namespace lockstep

#pragma GCC visibility pop
