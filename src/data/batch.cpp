// SPDX-License-Identifier: Apache-2.0
// Builds one batch: each sample is written directly into its row if the data set can do that; otherwise it is copied or
// collated.
#include "data/batch.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <any>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

std::string words(const at::Tensor& tensor) {
  if (!tensor.defined()) return "nothing";
  return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
}

/// One tensor of a batch, with one row for each sample.
class Rows {
 public:
  Rows(const char* name, std::int64_t count, bool pin) : name_(name), count_(count), pin_(pin) {}

  void allocate(const std::vector<std::int64_t>& shape, c10::ScalarType type) {
    std::vector<std::int64_t> sizes{count_};
    sizes.insert(sizes.end(), shape.begin(), shape.end());
    all_ = at::empty(sizes, at::TensorOptions().dtype(type).pinned_memory(pin_));
    row_bytes_ = count_ == 0 ? 0 : static_cast<std::int64_t>(all_.nbytes()) / count_;
    decided_ = true;
  }

  [[nodiscard]] std::byte* row(std::int64_t i) const {
    return all_.defined() ? static_cast<std::byte*>(all_.data_ptr()) + i * row_bytes_ : nullptr;
  }

  /// Copies `value` to row i. The first value determines the shape and type of all rows.
  void set(std::int64_t i, const at::Tensor& value) {
    if (!decided_) {
      decided_ = true;
      if (value.defined()) allocate(value.sizes().vec(), value.scalar_type());
    }
    if (in_row(i, value)) {
      if (fills_row(i, value)) return;
      return set(i, value.clone());  // a view of the row in another order cannot be copied to it
    }
    require_alike(i, value);
    if (all_.defined()) all_.select(0, i).copy_(value);
  }

  [[nodiscard]] at::Tensor first(std::int64_t count) const {
    return all_.defined() && count < count_ ? all_.narrow(0, 0, count) : all_;
  }

 private:
  [[nodiscard]] bool in_row(std::int64_t i, const at::Tensor& value) const {
    return value.defined() && value.has_storage() && value.nbytes() > 0 &&
           static_cast<const std::byte*>(value.storage().data_ptr().get()) == row(i);
  }

  /// Returns true if `value`, a tensor in row i, is the row itself, so that nothing has to be copied.
  [[nodiscard]] bool fills_row(std::int64_t i, const at::Tensor& value) const {
    const at::Tensor own_row = all_.select(0, i);
    return value.storage_offset() == 0 && value.is_contiguous() && !value.is_conj() && !value.is_neg() &&
           value.sizes() == own_row.sizes() && value.dtype() == own_row.dtype();
  }

  void require_alike(std::int64_t i, const at::Tensor& value) const {
    if (!value.defined() && !all_.defined()) return;
    const at::Tensor own_row = all_.defined() ? all_.select(0, i) : all_;
    if (value.defined() && own_row.defined() && value.sizes() == own_row.sizes() && value.dtype() == own_row.dtype())
      return;
    throw DataError(
        fmt::format("samples of a batch cannot be stacked: {} is {} in the first sample and {} in sample {}", name_,
                    words(own_row), words(value), i),
        "pass a collate function to the loader, or return samples of one shape and dtype from the data set");
  }

  const char* name_;
  std::int64_t count_;
  bool pin_;
  bool decided_ = false;
  at::Tensor all_;
  std::int64_t row_bytes_ = 0;
};

/// Creates the samples of one task, one after another.
class Maker {
 public:
  Maker(const BatchSource& source, const BatchTask& task, const std::atomic<bool>& cancelled, Progress& progress)
      : source_(source), task_(task), cancelled_(cancelled), progress_(progress) {}

  std::optional<MadeBatch> make() {
    const bool done = source_.collate ? collate() : source_.fixed != nullptr ? fill() : stack();
    if (!done) return std::nullopt;
    made_.batch.size = std::ssize(made_.batch.indices);
    return std::move(made_);
  }

 private:
  /// Calls `load`, (context, row) -> void, for each sample. Returns: false if the batch was cancelled.
  template <class Load>
  bool each(const Load& load) {
    progress_.step.store(task_.step, std::memory_order_relaxed);
    for (const std::int64_t index : task_.indices) {
      if (!begin_sample(index)) return false;
      load_or_skip(index, load);
      ++at_;
    }
    const bool all_bad = made_.batch.indices.empty() && !task_.indices.empty();
    if (all_bad && source_.replace_bad && !load_others(load)) return false;
    progress_.index.store(-1, std::memory_order_relaxed);
    return true;
  }

  /// Starts a sample. Returns: false if the batch was cancelled.
  bool begin_sample(std::int64_t index) {
    if (cancelled_.load(std::memory_order_relaxed)) return false;
    progress_.since_ns.store(SystemClock::instance().now().time_since_epoch().count(), std::memory_order_relaxed);
    progress_.index.store(index, std::memory_order_relaxed);
    return true;
  }

  /// Fills a batch whose samples are all bad with other samples from the set. The choice does not depend on the worker.
  template <class Load>
  bool load_others(const Load& load) {
    constexpr int kTries = 100;
    constexpr std::uint64_t kStream = 0x696e737465616421;  // separates these numbers from those of samples
    SampleRandom random(source_.seed ^ kStream, static_cast<std::uint64_t>(task_.epoch),
                        static_cast<std::uint64_t>(task_.indices.front()));
    const auto size = static_cast<std::uint64_t>(source_.dataset->size());
    for (int i = 0; i < kTries && made_.batch.indices.size() < task_.indices.size(); ++i) {
      const auto index = static_cast<std::int64_t>(random.below(size));
      if (std::ranges::find(task_.indices, index) != task_.indices.end()) continue;
      if (!begin_sample(index)) return false;
      load_or_skip(index, load);
    }
    if (!made_.batch.indices.empty()) return true;
    throw DataError(
        fmt::format("all {} samples of batch {} are bad, and so are all samples tried in their place; the first: {}",
                    task_.indices.size(), task_.step, made_.skipped.front().what),
        "check the list of bad samples, or remove them from the set");
  }

  template <class Load>
  void load_or_skip(std::int64_t index, const Load& load) {
    SampleContext context(source_.seed, task_.epoch, index);
    if (!source_.skip_bad) {
      load(context, std::ssize(made_.batch.indices));
    } else {
      context.left_out = &made_.skipped;
      try {
        load(context, std::ssize(made_.batch.indices));
      } catch (const DataError& fault) {
        made_.skipped.push_back({index, fault.message()});
        return;
      }
    }
    made_.batch.indices.push_back(index);
  }

  Sample get(SampleContext& context) const {
    if (task_.makers.empty()) return source_.dataset->get(context.index, context);
    return task_.makers[at_](context);
  }

  bool collate() {
    std::vector<Sample> samples;
    samples.reserve(task_.indices.size());
    if (!each([&](SampleContext& context, std::int64_t) { samples.push_back(get(context)); })) return false;
    if (samples.empty() && !task_.indices.empty()) return true;  // all are bad
    std::vector<std::int64_t> indices = std::move(made_.batch.indices);
    made_.batch = source_.collate(
        std::move(samples), {.seed = source_.seed, .epoch = task_.epoch, .step = task_.step, .replica = source_.shard});
    made_.batch.indices = std::move(indices);
    if (source_.pin_memory) {
      for (at::Tensor* tensor : {&made_.batch.data, &made_.batch.target}) {
        if (tensor->defined()) *tensor = tensor->pin_memory();
      }
    }
    return true;
  }

  bool fill() {
    const SampleSpec spec = source_.fixed->spec();
    data_.allocate(spec.data_shape, spec.data_type);
    if (spec.target_type != c10::ScalarType::Undefined) target_.allocate(spec.target_shape, spec.target_type);
    const bool done = each([&](SampleContext& context, std::int64_t row) {
      source_.fixed->get_into(context.index, context, SampleSlot{data_.row(row), target_.row(row)});
    });
    if (done) take_rows();
    return done;
  }

  bool stack() {
    SampleSpec spec;
    bool known = false;
    std::vector<std::any> extras;
    const bool done = each([&](SampleContext& context, std::int64_t row) {
      if (known) context.slot = {data_.row(row), target_.row(row)};
      if (known) context.spec = &spec;
      Sample sample = get(context);
      data_.set(row, sample.data);
      target_.set(row, sample.target);
      if (!known) spec = spec_of(sample);
      known = true;
      if (sample.extra.has_value() || !extras.empty()) {
        extras.resize(static_cast<std::size_t>(row));
        extras.push_back(std::move(sample.extra));
      }
    });
    if (!done) return false;
    take_rows();
    if (!extras.empty()) made_.batch.extra = std::move(extras);
    return true;
  }

  static SampleSpec spec_of(const Sample& sample) {
    SampleSpec spec;
    spec.data_type = c10::ScalarType::Undefined;
    if (sample.data.defined()) {
      spec.data_shape = sample.data.sizes().vec();
      spec.data_type = sample.data.scalar_type();
    }
    if (sample.target.defined()) {
      spec.target_shape = sample.target.sizes().vec();
      spec.target_type = sample.target.scalar_type();
    }
    return spec;
  }

  void take_rows() {
    made_.batch.data = data_.first(std::ssize(made_.batch.indices));
    made_.batch.target = target_.first(std::ssize(made_.batch.indices));
  }

  const BatchSource& source_;
  const BatchTask& task_;
  const std::atomic<bool>& cancelled_;
  Progress& progress_;
  std::size_t at_ = 0;  // index in the task
  Rows data_{"data", std::ssize(task_.indices), source_.pin_memory};
  Rows target_{"target", std::ssize(task_.indices), source_.pin_memory};
  MadeBatch made_;
};

}  // namespace

std::string BatchSource::describe(std::int64_t index) const {
  return dataset ? dataset->describe(index) : fmt::format("sample {} of the stream", index);
}

std::optional<MadeBatch> make_batch(const BatchSource& source, const BatchTask& task,
                                    const std::atomic<bool>& cancelled, Progress& progress) {
  const c10::NoGradGuard no_grad;
  std::optional<MadeBatch> made = Maker(source, task, cancelled, progress).make();
  if (made) {
    made->batch.epoch = task.epoch;
    made->batch.step = task.step;
  }
  return made;
}

}  // namespace lockstep::data
