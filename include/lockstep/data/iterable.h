// SPDX-License-Identifier: Apache-2.0
// Sets without an index or a known length, such as a command's output: one thread reads in order, all threads decode.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "lockstep/base/rank.h"
#include "lockstep/data/dataset.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Makes a sample from data that has already been read. It is called once, by one worker, while other workers call
/// other makers.
using SampleMaker = std::function<Sample(SampleContext&)>;

/// One pass over a set. Only one thread at a time calls next(), so the order does not depend on the number of workers.
/// next() reads, and leaves decoding to the maker that it returns.
class SampleStream {
 public:
  virtual ~SampleStream() = default;
  /// Returns the next maker; none at the end. An exception surfaces in the loop over the loader and ends the pass.
  virtual std::optional<SampleMaker> next() = 0;
};

/// A set that is read in order. Thread-safe: open() need not be.
class IterableDataset {
 public:
  virtual ~IterableDataset() = default;
  /// Opens a pass over the samples of shard `shard` in `epoch`. Different shards read different samples.
  virtual std::unique_ptr<SampleStream> open(std::int64_t epoch, ShardSpec shard) = 0;
};

/// Creates a set from a callable (epoch, shard) that returns a callable () -> std::optional<SampleMaker>.
[[nodiscard]] std::shared_ptr<IterableDataset> make_iterable(
    std::function<std::function<std::optional<SampleMaker>()>(std::int64_t epoch, ShardSpec shard)> open);

}  // namespace lockstep

#pragma GCC visibility pop
