// SPDX-License-Identifier: Apache-2.0
// Workers take batch numbers in order and leave what they made in a ring, from which the loop takes it in order.
// Not a plain queue: that hands over in the order of completion.
#include "lockstep/data/loader.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "data/batch.h"
#include "lockstep/base/error.h"
#include "lockstep/base/trace.h"
#include "lockstep/data/sampler.h"
#include "lockstep/tensor/device.h"

namespace lockstep {
namespace {

void check(const Dataset* dataset, const DataLoaderOptions& options) {
  if (dataset == nullptr) throw UsageError("a data loader needs a data set");
  const auto at_least = [](const char* name, std::int64_t value, std::int64_t least) {
    if (value < least) throw UsageError(fmt::format("data loader: {} is {}, must be at least {}", name, value, least));
  };
  at_least("batch_size", options.batch_size, 1);
  at_least("workers", options.workers, 0);
  at_least("prefetch_factor", options.prefetch_factor, 1);
}

std::vector<std::int64_t> indices_of(std::int64_t size, const DataLoaderOptions& options, std::int64_t epoch) {
  const SamplerOptions order{options.shuffle, options.seed, options.remainder == Remainder::kDrop};
  if (options.remainder != Remainder::kKeep) return DistributedSampler(size, options.shard, order).indices(epoch);
  const std::vector<std::int64_t> whole = DistributedSampler(size, {}, order).indices(epoch);
  std::vector<std::int64_t> part = EvaluationSampler(size, options.shard).indices();
  for (std::int64_t& index : part) index = whole[static_cast<std::size_t>(index)];
  return part;
}

std::int64_t part_size(std::int64_t size, const DataLoaderOptions& options) {
  if (options.remainder == Remainder::kKeep) return EvaluationSampler(size, options.shard).size();
  return DistributedSampler(size, options.shard, {.drop_last = options.remainder == Remainder::kDrop}).size();
}

// What a worker made of one batch number: a batch, or the error that belongs there.
struct Made {
  std::optional<Batch> batch;
  std::exception_ptr error;
};

// One epoch under way. Workers hold it too, so that a cancelled one lives until its last sample is done.
struct Pass {
  std::int64_t epoch = 0;
  std::int64_t end = 0;  // batches of the epoch
  std::int64_t next_task = 0;
  std::int64_t consumed = 0;  // batches that the loop has taken, counting those skipped by start_batch
  std::vector<std::int64_t> indices;
  std::vector<std::optional<Made>> ring;
  std::atomic<bool> cancelled{false};
};

}  // namespace

class DataLoader::Impl {
 public:
  Impl(std::shared_ptr<Dataset> dataset, DataLoaderOptions options);
  ~Impl();

  std::int64_t start(std::int64_t epoch, std::int64_t start_batch);
  std::optional<Batch> next(std::int64_t ticket);
  void cancel(std::int64_t ticket) noexcept;

  const std::shared_ptr<Dataset> dataset;
  const DataLoaderOptions options;
  const std::int64_t size;  // asked once: every rank and epoch must see the same
  std::int64_t samples = 0;
  std::int64_t steps = 0;

 private:
  void start_threads();
  void stop() noexcept;
  void work() noexcept;
  [[nodiscard]] Made make(const Pass& pass, std::int64_t step) const noexcept;
  [[nodiscard]] Made take(Pass& pass);
  [[nodiscard]] bool has_task() const noexcept {
    return pass_ && pass_->next_task < pass_->end &&
           pass_->next_task < pass_->consumed + static_cast<std::int64_t>(pass_->ring.size());
  }

  data::BatchSource source_;
  std::mutex mutex_;
  std::condition_variable task_waits_;
  std::condition_variable batch_waits_;
  std::shared_ptr<Pass> pass_;  // null between epochs
  std::int64_t ticket_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

DataLoader::Impl::Impl(std::shared_ptr<Dataset> dataset_in, DataLoaderOptions options_in)
    : dataset(std::move(dataset_in)),
      options(std::move(options_in)),
      size((check(dataset.get(), options), dataset->size())) {
  samples = part_size(size, options);
  if (options.drop_last) samples -= samples % options.batch_size;
  steps = (samples + options.batch_size - 1) / options.batch_size;
  auto* fixed = options.collate ? nullptr : dynamic_cast<FixedShapeDataset*>(dataset.get());
  source_ = {dataset.get(), fixed, options.collate, options.seed, options.pin_memory && at::hasCUDA()};
  start_threads();
}

DataLoader::Impl::~Impl() { stop(); }

void DataLoader::Impl::start_threads() {
  try {
    threads_.reserve(static_cast<std::size_t>(options.workers));
    for (std::int64_t i = 0; i < options.workers; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::exception& fault) {
    const std::size_t started = threads_.size();
    stop();
    throw ResourceError(fmt::format("only {} of {} loader threads started: {}", started, options.workers, fault.what()),
                        "lower workers");
  }
}

void DataLoader::Impl::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (pass_) pass_->cancelled = true;
    task_waits_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

std::int64_t DataLoader::Impl::start(std::int64_t epoch, std::int64_t start_batch) {
  if (start_batch < 0 || start_batch > steps) {
    throw UsageError(fmt::format("an epoch of {} batches cannot start at batch {}", steps, start_batch));
  }
  auto pass = std::make_shared<Pass>();
  pass->epoch = epoch;
  pass->end = steps;
  pass->next_task = pass->consumed = start_batch;
  pass->indices = indices_of(size, options, epoch);
  pass->ring.resize(static_cast<std::size_t>(options.workers * options.prefetch_factor));
  const std::lock_guard lock(mutex_);
  if (pass_) pass_->cancelled = true;
  pass_ = std::move(pass);
  task_waits_.notify_all();
  return ++ticket_;
}

void DataLoader::Impl::cancel(std::int64_t ticket) noexcept {
  const std::lock_guard lock(mutex_);
  if (ticket != ticket_ || !pass_) return;
  pass_->cancelled = true;
  pass_.reset();
}

std::optional<Batch> DataLoader::Impl::next(std::int64_t ticket) {
  // Only this thread replaces pass_, so it may be read without the lock.
  if (ticket != ticket_ || !pass_) throw UsageError("this epoch has ended: its data loader has started another");
  Pass& pass = *pass_;
  if (pass.consumed == pass.end) return std::nullopt;
  const trace::Span span({"DataLoader::next"});
  const std::int64_t step = pass.consumed;
  Made made;
  if (threads_.empty()) {
    ++pass.consumed;
    made = make(pass, step);
  } else {
    made = take(pass);
  }
  if (made.error) std::rethrow_exception(made.error);
  made.batch->step = step;
  return std::move(made.batch);
}

Made DataLoader::Impl::take(Pass& pass) {
  std::unique_lock lock(mutex_);
  auto& slot = pass.ring[static_cast<std::size_t>(pass.consumed) % pass.ring.size()];
  batch_waits_.wait(lock, [&] { return slot.has_value(); });
  Made made = std::move(*slot);
  slot.reset();
  ++pass.consumed;
  task_waits_.notify_one();
  return made;
}

Made DataLoader::Impl::make(const Pass& pass, std::int64_t step) const noexcept {
  try {
    const auto first = static_cast<std::size_t>(step * options.batch_size);
    const auto count = static_cast<std::size_t>(std::min(options.batch_size, samples - step * options.batch_size));
    return {data::make_batch(source_, pass.epoch, std::span(pass.indices).subspan(first, count), pass.cancelled), {}};
  } catch (...) {
    return {std::nullopt, std::current_exception()};
  }
}

void DataLoader::Impl::work() noexcept {
  tensor::adopt_device();
  at::init_num_threads();  // as the program's: a sample's bits must not depend on who loads it
  std::unique_lock lock(mutex_);
  while (true) {
    task_waits_.wait(lock, [this] { return stopping_ || has_task(); });
    if (stopping_) return;
    const std::shared_ptr<Pass> pass = pass_;
    const std::int64_t step = pass->next_task++;
    lock.unlock();
    Made made = make(*pass, step);
    lock.lock();
    if (pass->cancelled) continue;
    pass->ring[static_cast<std::size_t>(step) % pass->ring.size()] = std::move(made);
    batch_waits_.notify_one();
  }
}

DataLoader::DataLoader(const DatasetHandle& dataset, DataLoaderOptions options)
    : impl_(std::make_unique<Impl>(dataset.get(), std::move(options))) {}
DataLoader::~DataLoader() = default;
DataLoader::DataLoader(DataLoader&&) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&&) noexcept = default;

DataLoader::Epoch DataLoader::epoch(std::int64_t epoch, std::int64_t start_batch) {
  return Epoch(impl_.get(), impl_->start(epoch, start_batch));
}
std::int64_t DataLoader::steps_per_epoch() const noexcept { return impl_->steps; }
std::int64_t DataLoader::samples_per_epoch() const noexcept { return impl_->samples; }
std::vector<std::int64_t> DataLoader::indices(std::int64_t epoch) const {
  return indices_of(impl_->size, impl_->options, epoch);
}
const DataLoaderOptions& DataLoader::options() const noexcept { return impl_->options; }
const std::shared_ptr<Dataset>& DataLoader::dataset() const noexcept { return impl_->dataset; }

DataLoader::Epoch::~Epoch() {
  if (loader_ != nullptr) loader_->cancel(ticket_);
}
DataLoader::Epoch::Epoch(Epoch&& other) noexcept
    : loader_(std::exchange(other.loader_, nullptr)), ticket_(other.ticket_), batch_(std::move(other.batch_)) {}

Batch* DataLoader::Epoch::next() {
  batch_ = {};  // before the wait: its memory may be the next batch's
  std::optional<Batch> batch = loader_->next(ticket_);
  if (!batch) return nullptr;
  batch_ = std::move(*batch);
  return &batch_;
}

}  // namespace lockstep
