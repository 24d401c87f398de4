// SPDX-License-Identifier: Apache-2.0
// DataLoader: batches of a data set, prepared by threads. Their order and content do not depend on the number of
//             threads. The loader uses a ShardSpec, not a process group.
#pragma once

#include <c10/core/Device.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/rank.h"
#include "lockstep/data/batch_sampler.h"
#include "lockstep/data/collate.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/iterable.h"
#include "lockstep/data/sampler.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// How to handle a number of samples that is not a multiple of the number of shards.
enum class Remainder {
  kPad,   ///< repeats the first samples: every shard has the same number (training)
  kDrop,  ///< drops the last samples: every shard has the same number
  kKeep,  ///< neither repeats nor drops samples: shards may differ by one sample (evaluation)
};

/// How to handle a sample's DataError. Other errors always surface in the loop.
enum class BadSamples {
  kError,  ///< the error surfaces in the loop, at the sample's batch
  /// The sample is omitted from its batch, logged, and listed by bad_samples(). If all samples of a batch are bad, they
  /// are replaced by other samples of the set, chosen by seed, epoch and index, so that every shard keeps its number of
  /// steps. With Remainder::kKeep, and for a stream, such a batch is dropped instead.
  kSkip,
};

/// The samples that a DataLoader reads, their batches, and the number of threads that load them.
struct DataLoaderOptions {
  std::int64_t batch_size = 1;       ///< samples per batch
  std::int64_t workers = 0;          ///< number of loading threads; 0: the calling thread loads
  std::int64_t prefetch_factor = 2;  ///< batches prepared per worker
  bool persistent_workers = true;    ///< threads live as long as the loader; false: they end with each epoch
  bool shuffle = false;              ///< a new order in each epoch; false: the set's order
  bool drop_last = false;            ///< drops a last batch that is not full
  std::uint64_t seed = 0;            ///< seed of the order and of each sample's random numbers
  ShardSpec shard = {};              ///< the part of the set that this loader reads
  /// How to handle a set that does not divide evenly among the shards.
  Remainder remainder = Remainder::kPad;
  std::shared_ptr<const Sampler> sampler = nullptr;             ///< the order of the whole set, instead of shuffle
  std::shared_ptr<const BatchSampler> batch_sampler = nullptr;  ///< replaces batch_size, shuffle, drop_last and sampler
  bool elastic = false;  ///< lets resume() continue from a different number of shards or batch_size
  BadSamples bad_samples = BadSamples::kError;  ///< how to handle a sample that cannot be read
  bool note_bad_samples = true;                 ///< logs the first skipped samples
  double timeout_s = 0;                         ///< seconds that next() waits for a batch; 0: forever; requires workers
  bool note_waiting = true;                     ///< reports once if waiting took more than 10 % of an epoch
  bool pin_memory = false;                      ///< page-locked batches for copies to a GPU; no effect without a GPU
  c10::Device device{c10::kCPU};  ///< device of the batches; workers copy them to a CUDA device on their own stream
  Collate collate = nullptr;      ///< combines samples; default: stacks data and targets
};

/// The position of a loop over a loader: everything that another loader of the same set needs to continue.
struct LoaderState {
  std::int64_t epoch = 0;       ///< the epoch, from 0
  std::int64_t batches = 0;     ///< batches of this epoch and shard that the loop has taken
  std::int64_t consumed = 0;    ///< samples of the epoch that were read with a different number of shards or batch_size
  std::int64_t size = 0;        ///< number of samples in the set
  std::int64_t shards = 1;      ///< number of shards
  std::int64_t batch_size = 1;  ///< samples per batch
  std::uint64_t seed = 0;       ///< seed of the order

  bool operator==(const LoaderState&) const = default;
};

/// A class that knows its share of the data, such as Job.
template <class T>
concept Sharded = requires(const T& value) {
  { value.shard() } -> std::convertible_to<ShardSpec>;
};

/// Loads batches of a data set. Lifetime: its destructor ends the threads, even if batches are waiting or a sample is
/// being loaded. It waits for that sample, unless the sample has exceeded timeout_s; then the thread is abandoned.
/// Thread-safe: no; one epoch at a time.
/// Example: for (auto& batch : loader.epoch(e)) train(batch.data, batch.target);
class DataLoader {
 public:
  class Epoch;

  /// Makes the process keep freed memory from now on (keep_freed_memory(), tensor/memory.h).
  /// Throws: UsageError if an option is out of range, or options conflict; DataError if the set has fewer
  ///         samples than there are shards. Warns if it has fewer than shards x batch_size samples.
  explicit DataLoader(const DatasetHandle& dataset, DataLoaderOptions options = {});

  /// Loads a set that is read in order; shuffle and samplers are not allowed. The number of batches of an epoch is
  /// unknown before its end. Throws: UsageError if an option is out of range or not allowed.
  explicit DataLoader(std::shared_ptr<IterableDataset> dataset, DataLoaderOptions options = {});

  /// Uses `job.shard()` as the shard.
  template <Sharded Job>
  DataLoader(const DatasetHandle& dataset, const Job& job, DataLoaderOptions options = {})
      : DataLoader(dataset, with_shard(std::move(options), job.shard())) {}

  template <Sharded Job>
  DataLoader(std::shared_ptr<IterableDataset> dataset, const Job& job, DataLoaderOptions options = {})
      : DataLoader(std::move(dataset), with_shard(std::move(options), job.shard())) {}

  ~DataLoader();
  DataLoader(DataLoader&&) noexcept;
  DataLoader& operator=(DataLoader&&) noexcept;
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  /// Returns the batches of `epoch` starting with batch `start_batch` (to resume after that many batches). Loading
  /// starts at once; any earlier epoch of this loader ends.
  /// Throws: UsageError if epoch or start_batch is negative, or start_batch is beyond steps_per_epoch().
  [[nodiscard]] Epoch epoch(std::int64_t epoch, std::int64_t start_batch = 0);

  /// Returns the loop's position: after the last batch that it has taken, or at the beginning of the first epoch.
  [[nodiscard]] LoaderState state() const;

  /// Returns the remaining batches of state.epoch, which are the same for any number of workers. If the number of
  /// shards or batch_size has changed (`elastic`), the unread samples are redistributed: none is lost or repeated,
  /// except that drop_last drops a last step whose batches are not full.
  /// Throws: UsageError naming what differs: the set's size, the seed or, if `elastic` is false, the shards or
  ///         batch_size.
  [[nodiscard]] Epoch resume(const LoaderState& state);

  /// Returns the number of batches of a whole epoch on this shard, even after resume(); 0 for an iterable set.
  [[nodiscard]] std::int64_t steps_per_epoch() const noexcept;
  /// Returns the number of samples of an epoch on this shard, after padding or drop_last; 0 if unknown.
  [[nodiscard]] std::int64_t samples_per_epoch() const noexcept;
  /// Returns the indices that this shard reads in `epoch`, in order.
  [[nodiscard]] std::vector<std::int64_t> indices(std::int64_t epoch) const;
  /// Returns the options in effect.
  [[nodiscard]] const DataLoaderOptions& options() const noexcept;
  /// Returns the data set; null for an iterable set.
  [[nodiscard]] const std::shared_ptr<Dataset>& dataset() const noexcept;
  /// Returns the samples skipped so far, each once, in the order in which they were found. Thread-safe: yes.
  [[nodiscard]] std::vector<BadSample> bad_samples() const;
  /// Returns how many seconds the loop has waited for batches, in all epochs.
  [[nodiscard]] double waited_s() const noexcept;

 private:
  class Impl;
  static DataLoaderOptions with_shard(DataLoaderOptions options, ShardSpec shard) {
    options.shard = shard;
    return options;
  }
  std::unique_ptr<Impl> impl_;
};

/// One pass over the shard, for a range-based for loop. The loop may end early. Lifetime: the loader outlives it.
class DataLoader::Epoch {
 public:
  class Iterator;

  Epoch(Impl* loader, std::int64_t ticket) noexcept : loader_(loader), ticket_(ticket) {}
  ~Epoch();
  Epoch(Epoch&& other) noexcept;
  Epoch& operator=(Epoch&&) = delete;
  Epoch(const Epoch&) = delete;
  Epoch& operator=(const Epoch&) = delete;

  /// Returns the next batch, or nullptr at the end. The batch lives until the next call; the caller may move from it.
  /// Blocks: until the batch is ready.
  /// Throws: the data set's error for a sample of this batch; TimeoutError after timeout_s, naming the sample.
  ///         UsageError if another epoch was started since.
  Batch* next();

  /// Fetches the first batch; a second call continues where the first loop stopped.
  Iterator begin();
  /// The end of the loop.
  [[nodiscard]] static std::default_sentinel_t end() noexcept { return {}; }

 private:
  Impl* loader_;
  std::int64_t ticket_;
  Batch batch_;
};

/// An input iterator over batches.
class DataLoader::Epoch::Iterator {
 public:
  using value_type = Batch;                ///< for standard algorithms
  using difference_type = std::ptrdiff_t;  ///< for standard algorithms

  explicit Iterator(Epoch* epoch) : epoch_(epoch), batch_(epoch->next()) {}
  Batch& operator*() const noexcept { return *batch_; }
  Batch* operator->() const noexcept { return batch_; }
  Iterator& operator++() {
    batch_ = epoch_->next();
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const noexcept { return batch_ == nullptr; }

 private:
  Epoch* epoch_;
  Batch* batch_;
};

inline DataLoader::Epoch::Iterator DataLoader::Epoch::begin() { return Iterator(this); }

}  // namespace lockstep

#pragma GCC visibility pop
