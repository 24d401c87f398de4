// SPDX-License-Identifier: Apache-2.0
// A loop's view of its batches: its position, its waiting time and its errors. epoch_plan.cpp determines the order,
// worker_pool.cpp runs the threads, and epoch_stream.cpp hands over their batches.
#include "lockstep/data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <set>

#include "data/batch.h"
#include "data/device_copy.h"
#include "data/epoch_plan.h"
#include "data/epoch_stream.h"
#include "data/worker_pool.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/log.h"
#include "lockstep/base/trace.h"
#include "lockstep/tensor/device.h"
#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/sharing.h"

namespace lockstep {
namespace {

constexpr double kMuchWaiting = 0.1;       // fraction of an epoch's time
constexpr double kShortEpoch = 1.0;        // seconds: shorter epochs are not judged
constexpr std::size_t kNotedSamples = 10;  // maximum number of bad samples logged one by one

/// Returns the number of samples of the epoch that all shards of `state` have read in total.
std::int64_t consumed_of(const LoaderState& state, std::int64_t whole) {
  const std::int64_t rest = whole - state.consumed;
  const std::int64_t in_step = state.shards * state.batch_size;
  const std::int64_t read = std::min(state.batches * in_step, rest);
  // In a redistributed remainder, if fewer samples than shards are left at the end, they belong to the previous step.
  const bool joined = state.consumed > 0 && rest - read < state.shards && state.batches > 0;
  return joined ? whole : state.consumed + read;
}

Seconds now() { return SystemClock::instance().now().time_since_epoch(); }

/// The samples that were skipped, each once. Thread-safe: yes.
class BadSampleList {
 public:
  explicit BadSampleList(bool noted) : noted_(noted) {}

  void add(const std::vector<BadSample>& skipped) {
    if (skipped.empty()) return;
    const std::lock_guard lock(mutex_);
    for (const BadSample& each : skipped) {
      if (!indices_.insert(each.index).second) continue;
      list_.push_back(each);
      if (!noted_) continue;
      if (list_.size() <= kNotedSamples) log::note("bad sample skipped: sample {}: {}", each.index, each.what);
      if (list_.size() == kNotedSamples) log::note("further bad samples are only counted");
    }
  }

  [[nodiscard]] std::vector<BadSample> all() const {
    const std::lock_guard lock(mutex_);
    return list_;
  }

 private:
  bool noted_;
  mutable std::mutex mutex_;
  std::vector<BadSample> list_;
  std::set<std::int64_t> indices_;
};

/// Names the worker and the sample that batch `step` is waiting for.
TimeoutError too_slow(const data::WorkerPool& workers, const data::BatchSource& source, std::int64_t step,
                      std::int64_t epoch, double limit_s) {
  std::string who = "no worker has started it";
  if (const auto slow = workers.find(step); slow && slow->index >= 0) {
    who = fmt::format("worker {} has been loading {} for {:.1f} s", slow->worker, source.describe(slow->index),
                      slow->since.count());
  }
  return TimeoutError(
      fmt::format("batch {} of epoch {} did not arrive within {:.1f} s: {}", step, epoch, limit_s, who),
      "check that sample and its disk, or raise the limit (timeout_s; loader_timeout_s in a recipe; 0: wait forever)");
}

}  // namespace

class DataLoader::Impl {
 public:
  Impl(std::shared_ptr<Dataset> dataset, std::shared_ptr<IterableDataset> iterable, DataLoaderOptions options);

  std::int64_t start(const LoaderState& from);
  std::optional<Batch> next(std::int64_t ticket);
  void cancel(std::int64_t ticket) noexcept;
  [[nodiscard]] LoaderState state() const;
  /// Returns the position from which this loader continues after `state`, which may have been left by a different
  /// number of shards.
  [[nodiscard]] LoaderState translated(const LoaderState& state) const;
  [[nodiscard]] std::vector<BadSample> bad_samples() const;

  const std::shared_ptr<Dataset> dataset;
  const std::shared_ptr<IterableDataset> iterable;
  const DataLoaderOptions options;
  const std::int64_t size;  // read once, so that every epoch has the same size
  std::int64_t samples = 0;
  std::int64_t steps = 0;
  double waited_s = 0;

 private:
  [[nodiscard]] std::unique_ptr<data::Feed> make_feed(const LoaderState& from) const;
  [[nodiscard]] data::BatchSource make_source() const;
  void use_workers();
  [[nodiscard]] std::optional<data::BatchOutcome> timed_wait();
  [[nodiscard]] std::optional<data::BatchOutcome> wait_for_batch();
  [[nodiscard]] std::optional<data::BatchOutcome> make_here();
  void note_failure(const data::BatchOutcome& made) const;
  void end_pass();
  void judge_waiting() const;

  data::BatchSource source_;
  std::unique_ptr<data::WorkerPool> workers_;  // if null, the loop's own thread loads
  data::Progress progress_;                    // progress of the loop's own thread
  std::shared_ptr<data::EpochStream> stream_;  // null between epochs
  LoaderState position_;
  Seconds begun_{0};            // time when the stream began
  double waited_before_s_ = 0;  // waiting time before the stream
  std::int64_t ticket_ = 0;
  mutable bool said_waiting_ = false;
  mutable bool said_workers_ = false;
  BadSampleList bad_{options.note_bad_samples};
};

DataLoader::Impl::Impl(std::shared_ptr<Dataset> dataset_in, std::shared_ptr<IterableDataset> iterable_in,
                       DataLoaderOptions options_in)
    : dataset(std::move(dataset_in)),
      iterable(std::move(iterable_in)),
      options(std::move(options_in)),
      size(dataset ? dataset->size() : 0) {
  if (!dataset && !iterable) throw UsageError("a data loader needs a data set");
  data::check_options(dataset ? size : options.shard.count * options.batch_size, options);
  if (iterable && (options.shuffle || options.sampler || options.batch_sampler)) {
    throw UsageError("data loader: an iterable set is read in its own order: no shuffle, no sampler",
                     "shuffle in the data set's open(), or use a data set with an index");
  }
  if (dataset) {
    const data::EpochSize epoch = data::epoch_size(size, options);
    steps = epoch.batches;
    samples = options.drop_last ? epoch.samples - epoch.samples % options.batch_size : epoch.samples;
  }
  // Batches are large. Without this call, each batch's memory would be mapped anew, with a page fault for each page.
  keep_freed_memory();
  position_ = {.size = size, .shards = options.shard.count, .batch_size = options.batch_size, .seed = options.seed};
  source_ = make_source();
  if (options.persistent_workers) use_workers();
}

data::BatchSource DataLoader::Impl::make_source() const {
  auto* fixed = options.collate ? nullptr : dynamic_cast<FixedShapeDataset*>(dataset.get());
  return {.dataset = dataset,
          .fixed = fixed,
          .collate = options.collate,
          .seed = options.seed,
          .pin_memory = (options.pin_memory || options.device.is_cuda()) && tensor::has_cuda(),
          .skip_bad = options.bad_samples == BadSamples::kSkip,
          .replace_bad = dataset != nullptr && options.remainder != Remainder::kKeep,
          .shard = options.shard.index};
}

void DataLoader::Impl::use_workers() {
  if (workers_ || options.workers == 0) return;
  workers_ = std::make_unique<data::WorkerPool>(source_, options.device, options.workers);
}

std::unique_ptr<data::Feed> DataLoader::Impl::make_feed(const LoaderState& from) const {
  if (iterable) {
    return std::make_unique<data::StreamFeed>(iterable, options, from.epoch, from.batches);
  }
  data::EpochPlan plan = data::plan_epoch(size, options, from.epoch, from.consumed);
  if (from.batches < 0 || from.batches > plan.size()) {
    throw UsageError(fmt::format("an epoch of {} batches cannot start at batch {}", plan.size(), from.batches));
  }
  return std::make_unique<data::PlanFeed>(std::move(plan), from.epoch, from.batches);
}

std::int64_t DataLoader::Impl::start(const LoaderState& from) {
  if (from.epoch < 0) throw UsageError(fmt::format("epoch {} does not exist: epochs are numbered from 0", from.epoch));
  auto stream =
      std::make_shared<data::EpochStream>(make_feed(from), from.batches, options.workers * options.prefetch_factor);
  if (stream_) stream_->cancel();
  position_ = from;
  stream_ = std::move(stream);
  begun_ = now();
  waited_before_s_ = waited_s;
  use_workers();
  if (workers_) workers_->work_for(stream_);
  return ++ticket_;
}

LoaderState DataLoader::Impl::state() const {
  LoaderState state = position_;
  if (stream_) state.batches = stream_->consumed();
  return state;
}

LoaderState DataLoader::Impl::translated(const LoaderState& state) const {
  const auto require_same = [](const char* what, auto here, auto there) {
    if (here == there) return;
    throw UsageError(fmt::format("the data loader stopped with {} {} and would continue with {}", what, there, here),
                     "continue with the same data and seed, or begin a new epoch");
  };
  require_same("a set of size", size, state.size);
  require_same("seed", options.seed, state.seed);
  if (state.shards == options.shard.count && state.batch_size == options.batch_size) return state;
  if (!options.elastic || iterable || options.batch_sampler) {
    throw UsageError(
        fmt::format("the data loader stopped with {} shards x batch_size {} and would continue with {} x {}",
                    state.shards, state.batch_size, options.shard.count, options.batch_size),
        iterable || options.batch_sampler ? "continue with the same number of shards and the same batch_size"
                                          : "continue with the same number of shards and the same batch_size, or set "
                                            "elastic to redistribute the rest");
  }
  LoaderState here = state;
  here.shards = options.shard.count;
  here.batch_size = options.batch_size;
  here.consumed = consumed_of(state, options.sampler ? options.sampler->size() : size);
  here.batches = 0;
  return here;
}

void DataLoader::Impl::cancel(std::int64_t ticket) noexcept {
  if (ticket == ticket_ && stream_) end_pass();
}

void DataLoader::Impl::end_pass() {
  position_.batches = stream_->consumed();
  stream_->cancel();
  stream_.reset();
  if (workers_) workers_->work_for(nullptr);
  if (!options.persistent_workers) workers_.reset();
}

std::optional<Batch> DataLoader::Impl::next(std::int64_t ticket) {
  if (ticket != ticket_ || !stream_) throw UsageError("this epoch has ended: the data loader has started another one");
  std::optional<data::BatchOutcome> made;
  do {
    made = stream_->at_end() ? std::nullopt : timed_wait();
    if (!made) {
      judge_waiting();
      tensor::warn_of_separate_training();
      return std::nullopt;
    }
    fault::note_batch(position_.epoch, stream_->consumed() - 1);
    if (made->error) {
      note_failure(*made);
      std::rethrow_exception(made->error);
    }
    bad_.add(made->made->skipped);
  } while (made->made->batch.size == 0 && !made->made->skipped.empty());
  Batch& batch = made->made->batch;
  if (made->copied) data::wait_for_copy(*made->copied, batch);
  tensor::note_first_batch(batch.indices, options.shard.count);
  if (options.shard.count > 1) tensor::note_shard_batch(options.shuffle);
  return std::move(batch);
}

std::optional<data::BatchOutcome> DataLoader::Impl::timed_wait() {
  const trace::Span span({"DataLoader::next"});
  const Seconds begin = now();
  std::optional<data::BatchOutcome> made = workers_ ? wait_for_batch() : make_here();
  waited_s += (now() - begin).count();
  return made;
}

std::optional<data::BatchOutcome> DataLoader::Impl::wait_for_batch() {
  switch (stream_->wait(Seconds(options.timeout_s))) {
    case data::EpochStream::Wait::kEnded:
      return std::nullopt;
    case data::EpochStream::Wait::kReady:
      return stream_->take();
    case data::EpochStream::Wait::kTimeout:
      break;
  }
  workers_->abandon();
  throw too_slow(*workers_, source_, stream_->consumed(), position_.epoch, options.timeout_s);
}

std::optional<data::BatchOutcome> DataLoader::Impl::make_here() {
  const std::optional<data::BatchTask> task = stream_->take_task_alone();
  if (!task) return std::nullopt;
  data::BatchOutcome made = data::make(source_, *task, stream_->cancelled(), progress_);
  if (made.made) made.copied = data::DeviceCopy(options.device).start(made.made->batch);
  return made;
}

void DataLoader::Impl::note_failure(const data::BatchOutcome& made) const {
  if (!workers_ || said_workers_ || made.failed_index < 0) return;
  said_workers_ = true;
  log::note(
      "a loader worker failed at {}; set workers: 0 to load in the training thread, where a debugger sees the error",
      source_.describe(made.failed_index));
}

std::vector<BadSample> DataLoader::Impl::bad_samples() const { return bad_.all(); }

void DataLoader::Impl::judge_waiting() const {
  const double whole = (now() - begun_).count();
  const double waited = waited_s - waited_before_s_;
  if (said_waiting_ || !options.note_waiting || options.shard.index != 0 || whole < kShortEpoch ||
      waited < kMuchWaiting * whole)
    return;
  said_waiting_ = true;
  log::note(
      "waiting for data took {:.0f} % of epoch {} ({:.1f} of {:.1f} s): raise workers ({}) or prefetch_factor ({}), "
      "or pack the set once: lockstep pack",
      100 * waited / whole, position_.epoch, waited, whole, options.workers, options.prefetch_factor);
}

DataLoader::DataLoader(const DatasetHandle& dataset, DataLoaderOptions options)
    : impl_(std::make_unique<Impl>(dataset.get(), nullptr, std::move(options))) {}
DataLoader::DataLoader(std::shared_ptr<IterableDataset> dataset, DataLoaderOptions options)
    : impl_(std::make_unique<Impl>(nullptr, std::move(dataset), std::move(options))) {}
DataLoader::~DataLoader() = default;
DataLoader::DataLoader(DataLoader&&) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&&) noexcept = default;

DataLoader::Epoch DataLoader::epoch(std::int64_t epoch, std::int64_t start_batch) {
  LoaderState from = impl_->state();
  from.epoch = epoch;
  from.batches = start_batch;
  from.consumed = 0;
  return Epoch(impl_.get(), impl_->start(from));
}
LoaderState DataLoader::state() const { return impl_->state(); }
DataLoader::Epoch DataLoader::resume(const LoaderState& state) {
  return Epoch(impl_.get(), impl_->start(impl_->translated(state)));
}
std::int64_t DataLoader::steps_per_epoch() const noexcept { return impl_->steps; }
std::int64_t DataLoader::samples_per_epoch() const noexcept { return impl_->samples; }
std::vector<std::int64_t> DataLoader::indices(std::int64_t epoch) const {
  return data::plan_epoch(impl_->size, impl_->options, epoch).indices();
}
const DataLoaderOptions& DataLoader::options() const noexcept { return impl_->options; }
const std::shared_ptr<Dataset>& DataLoader::dataset() const noexcept { return impl_->dataset; }

std::vector<BadSample> DataLoader::bad_samples() const { return impl_->bad_samples(); }
double DataLoader::waited_s() const noexcept { return impl_->waited_s; }

DataLoader::Epoch::~Epoch() {
  if (loader_ != nullptr) loader_->cancel(ticket_);
}
DataLoader::Epoch::Epoch(Epoch&& other) noexcept
    : loader_(std::exchange(other.loader_, nullptr)), ticket_(other.ticket_), batch_(std::move(other.batch_)) {}

Batch* DataLoader::Epoch::next() {
  batch_ = {};  // freed before the wait, so that the next batch can use its memory
  std::optional<Batch> batch = loader_->next(ticket_);
  if (!batch) return nullptr;
  batch_ = std::move(*batch);
  return &batch_;
}

}  // namespace lockstep
