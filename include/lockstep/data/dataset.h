// SPDX-License-Identifier: Apache-2.0
// The interface of a data set: a size and a sample per index. Workers are threads, so a set may be a local class or a
// lambda.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/core/Tensor.h>

#include <any>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/data/sample_random.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// One example. Samples that are stacked all have the same shapes and dtypes.
struct Sample {
  at::Tensor data;    ///< the network's input
  at::Tensor target;  ///< the target; if it is undefined, so is the batch's target
  std::any extra;  ///< data that cannot be stacked, such as the boxes of an image; Batch::extra holds a vector of them
};

/// The memory of one sample of a batch: uninitialised, contiguous rows of the batch's tensors.
struct SampleSlot {
  void* data = nullptr;    ///< memory for the sample's data
  void* target = nullptr;  ///< nullptr if the spec has no target

  /// Returns `data` as a pointer to elements of type T.
  template <class T>
  [[nodiscard]] T* data_as() const noexcept {
    return static_cast<T*>(data);
  }
  /// Returns `target` as a pointer to elements of type T.
  template <class T>
  [[nodiscard]] T* target_as() const noexcept {
    return static_cast<T*>(target);
  }
};

/// The shapes and dtypes shared by all samples of a set. An undefined target type means no target.
struct SampleSpec {
  std::vector<std::int64_t> data_shape;                ///< sizes of one sample's data, without the batch dimension
  c10::ScalarType data_type = c10::ScalarType::Float;  ///< type of the data's elements
  std::vector<std::int64_t> target_shape;              ///< sizes of one sample's target, without the batch dimension
  c10::ScalarType target_type = c10::ScalarType::Undefined;  ///< Undefined: samples have no target
};

/// A bad sample that was skipped, or a bad image that an augmentation drew for a sample.
struct BadSample {
  std::int64_t index = 0;  ///< the sample's index; for an image that an augmentation drew, its index in the source
  std::string what;        ///< the error's message, with the file's path if the sample has a file
};

/// Everything that a sample may depend on. All random choices come from `random`, independently of the workers.
struct SampleContext {
  std::uint64_t seed = 0;  ///< the loader's seed
  std::int64_t epoch = 0;  ///< the epoch, from 0
  std::int64_t index = 0;  ///< the sample's index
  SampleRandom random;     ///< random numbers that depend only on the three fields above

  SampleContext(std::uint64_t of_seed, std::int64_t of_epoch, std::int64_t of_index)
      : seed(of_seed),
        epoch(of_epoch),
        index(of_index),
        random(of_seed, static_cast<std::uint64_t>(of_epoch), static_cast<std::uint64_t>(of_index)) {}

  /// Returns an uninitialised tensor for Sample::data. It is the sample's own row of its batch if the row has this
  /// shape and dtype, so that nothing is copied when samples are stacked; otherwise it is new memory. Only the first
  /// such call returns the row: a sample may be mixed from several. Lifetime: the row lives as long as the batch.
  [[nodiscard]] at::Tensor empty_data(at::IntArrayRef sizes, c10::ScalarType type = c10::ScalarType::Float) const;
  /// The same for Sample::target.
  [[nodiscard]] at::Tensor empty_target(at::IntArrayRef sizes, c10::ScalarType type = c10::ScalarType::Long) const;

  mutable SampleSlot slot;           ///< the sample's row until it is handed out; set once the batch has memory
  const SampleSpec* spec = nullptr;  ///< the shapes and dtypes of the row
  /// The list to which an augmentation adds each image that it drew and could not read, before it draws another one.
  /// Null if bad samples are not skipped: such an image is then an error.
  std::vector<BadSample>* left_out = nullptr;
};

/// The combined samples of one step on one rank.
struct Batch {
  at::Tensor data;                    ///< the samples' data, stacked: [B, ...]
  at::Tensor target;                  ///< the targets, stacked; undefined if the samples have none
  std::vector<std::int64_t> indices;  ///< indices of the samples in the data set
  std::int64_t size = 0;              ///< number of samples; the last batch of an epoch may be smaller
  std::int64_t epoch = 0;             ///< the epoch, from 0
  std::int64_t step = 0;              ///< index of the batch in the epoch, from 0; a resumed run starts at step + 1
  std::any extra;                     ///< data from a collate function, or the samples' extras as std::vector<std::any>
};

/// A set of samples with indices. Thread-safe: size() and get() must be; several workers call get() at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  /// Returns the number of samples.
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// Returns sample `index`, 0 <= index < size(). An exception surfaces in the loader loop, at the sample's batch.
  virtual Sample get(std::int64_t index, SampleContext& context) = 0;
  /// Describes the sample for messages: its file if it has one.
  [[nodiscard]] virtual std::string describe(std::int64_t index) const { return "sample " + std::to_string(index); }
};

/// A data set whose samples have one shape and are written directly into the batch, which is faster.
/// Thread-safe: spec() and get_into() must be.
class FixedShapeDataset : public Dataset {
 public:
  /// Returns the same spec on each call.
  [[nodiscard]] virtual SampleSpec spec() const = 0;
  /// Writes all elements of sample `index` into `slot`.
  virtual void get_into(std::int64_t index, SampleContext& context, SampleSlot slot) = 0;
  /// Calls get_into() for a new sample.
  Sample get(std::int64_t index, SampleContext& context) override;
};

/// A user's class that is not a Dataset: it has size() and a get(index) or get(index, context) that may be called
/// concurrently.
template <class D>
concept PlainDataset = !std::derived_from<D, Dataset> && requires(D & set, const D& same, std::int64_t index) {
  { same.size() } -> std::convertible_to<std::int64_t>;
}
&&(
    requires(D& set, std::int64_t index) {
      { set.get(index) } -> std::same_as<Sample>;
    } ||
    requires(D & set, std::int64_t index, SampleContext& context) {
      { set.get(index, context) } -> std::same_as<Sample>;
    });

/// Adapts a PlainDataset to the Dataset interface.
template <PlainDataset D>
class PlainDatasetAdapter final : public Dataset {
 public:
  explicit PlainDatasetAdapter(D set) : set_(std::move(set)) {}
  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(set_.size()); }
  Sample get(std::int64_t index, SampleContext& context) override {
    if constexpr (requires { set_.get(index, context); }) {
      return set_.get(index, context);
    } else {
      return set_.get(index);
    }
  }

 private:
  D set_;
};

/// A libtorch data set (torch::data::datasets::Dataset and the like): get(index) returns an Example, size() an optional
/// number. Several threads call get() on one object; libtorch's loader instead copies the set for each thread.
template <class D>
concept LibtorchDataset = !std::derived_from<D, Dataset> && requires(D & set, std::size_t index) {
  { set.get(index).data } -> std::convertible_to<at::Tensor>;
  { set.get(index).target } -> std::convertible_to<at::Tensor>;
  { *set.size() } -> std::convertible_to<std::size_t>;
};

/// Adapts a LibtorchDataset to the Dataset interface.
template <LibtorchDataset D>
class LibtorchDatasetAdapter final : public Dataset {
 public:
  explicit LibtorchDatasetAdapter(D set) : set_(std::move(set)) {}
  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(set_.size().value()); }
  Sample get(std::int64_t index, SampleContext&) override {
    auto example = set_.get(static_cast<std::size_t>(index));
    return {std::move(example.data), std::move(example.target), {}};
  }

 private:
  D set_;
};

/// The parameter type of functions that take a data set: a shared_ptr, or a set by value (moved in), including
/// libtorch's.
class DatasetHandle {
 public:
  template <std::derived_from<Dataset> D>
  DatasetHandle(std::shared_ptr<D> dataset) : dataset_(std::move(dataset)) {}  // NOLINT(google-explicit-constructor)

  template <class D>
  requires std::derived_from<std::remove_cvref_t<D>, Dataset> DatasetHandle(
      D&& dataset)  // NOLINT(google-explicit-constructor)
      : dataset_(std::make_shared<std::remove_cvref_t<D>>(std::forward<D>(dataset))) {}

  template <PlainDataset D>
  DatasetHandle(D dataset)  // NOLINT(google-explicit-constructor)
      : dataset_(std::make_shared<PlainDatasetAdapter<D>>(std::move(dataset))) {}

  template <LibtorchDataset D>
  DatasetHandle(D dataset)  // NOLINT(google-explicit-constructor)
      : dataset_(std::make_shared<LibtorchDatasetAdapter<D>>(std::move(dataset))) {}

  /// Returns the data set.
  [[nodiscard]] const std::shared_ptr<Dataset>& get() const noexcept { return dataset_; }

 private:
  std::shared_ptr<Dataset> dataset_;
};

/// The data set behind make_dataset() and transform().
class FunctionDataset final : public Dataset {
 public:
  /// Creates a sample from its index.
  using Function = std::function<Sample(std::int64_t, SampleContext&)>;
  FunctionDataset(std::int64_t size, Function function);
  [[nodiscard]] std::int64_t size() const override { return size_; }
  Sample get(std::int64_t index, SampleContext& context) override { return function_(index, context); }

 private:
  std::int64_t size_;
  Function function_;
};

/// Creates a data set of `size` samples from a callable (index) -> Sample or (index, SampleContext&) -> Sample, which
/// several threads call at once. Throws: UsageError if size is negative.
/// Example: auto squares = make_dataset(100, [](int64_t i) { return Sample{at::full({1}, i), at::full({1}, i * i)}; });
template <class F>
[[nodiscard]] std::shared_ptr<Dataset> make_dataset(std::int64_t size, F function) {
  if constexpr (std::invocable<F&, std::int64_t, SampleContext&>) {
    return std::make_shared<FunctionDataset>(size, std::move(function));
  } else {
    static_assert(std::invocable<F&, std::int64_t>, "the callable must take (index) or (index, SampleContext&)");
    return std::make_shared<FunctionDataset>(
        size,
        [call = std::move(function)](std::int64_t index, SampleContext&) mutable -> Sample { return call(index); });
  }
}

/// Returns `dataset` with every sample passed through `change`: Sample -> Sample, or (Sample, SampleContext&) ->
/// Sample.
template <class F>
[[nodiscard]] std::shared_ptr<Dataset> transform(const DatasetHandle& dataset, F change) {
  auto function = [inner = dataset.get(), call = std::move(change)](std::int64_t index,
                                                                    SampleContext& context) mutable -> Sample {
    if constexpr (std::invocable<F&, Sample, SampleContext&>) {
      return call(inner->get(index, context), context);
    } else {
      return call(inner->get(index, context));
    }
  };
  return std::make_shared<FunctionDataset>(dataset.get()->size(), std::move(function));
}

}  // namespace lockstep

#pragma GCC visibility pop
