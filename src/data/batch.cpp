// SPDX-License-Identifier: Apache-2.0
// One batch: samples written in place where the data set can, else collated.
#include "data/batch.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

at::Tensor empty_rows(std::int64_t rows, const std::vector<std::int64_t>& shape, c10::ScalarType type, bool pin) {
  std::vector<std::int64_t> sizes{rows};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return at::empty(sizes, at::TensorOptions().dtype(type).pinned_memory(pin));
}

std::byte* row(const at::Tensor& tensor, std::int64_t index) {
  if (!tensor.defined()) return nullptr;
  const std::int64_t row_bytes = tensor.size(0) == 0 ? 0 : static_cast<std::int64_t>(tensor.nbytes()) / tensor.size(0);
  return static_cast<std::byte*>(tensor.data_ptr()) + index * row_bytes;
}

std::optional<Batch> fill_in_place(const BatchSource& source, std::int64_t epoch, std::span<const std::int64_t> indices,
                                   const std::atomic<bool>& cancelled) {
  const SampleSpec spec = source.fixed->spec();
  const auto rows = static_cast<std::int64_t>(indices.size());
  Batch batch;
  batch.data = empty_rows(rows, spec.data_shape, spec.data_type, source.pin_memory);
  if (spec.target_type != c10::ScalarType::Undefined) {
    batch.target = empty_rows(rows, spec.target_shape, spec.target_type, source.pin_memory);
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    if (cancelled.load(std::memory_order_relaxed)) return std::nullopt;
    const std::int64_t index = indices[static_cast<std::size_t>(i)];
    SampleContext context(source.seed, epoch, index);
    source.fixed->get_into(index, context, SampleSlot{row(batch.data, i), row(batch.target, i)});
  }
  return batch;
}

std::optional<Batch> collate(const BatchSource& source, std::int64_t epoch, std::span<const std::int64_t> indices,
                             const std::atomic<bool>& cancelled) {
  std::vector<Sample> samples;
  samples.reserve(indices.size());
  for (const std::int64_t index : indices) {
    if (cancelled.load(std::memory_order_relaxed)) return std::nullopt;
    SampleContext context(source.seed, epoch, index);
    samples.push_back(source.dataset->get(index, context));
  }
  Batch batch = source.collate ? source.collate(std::move(samples)) : stack_samples(samples);
  if (source.pin_memory) {
    if (batch.data.defined()) batch.data = batch.data.pin_memory();
    if (batch.target.defined()) batch.target = batch.target.pin_memory();
  }
  return batch;
}

std::string words(const at::Tensor& tensor) {
  if (!tensor.defined()) return "nothing";
  return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
}

// Undefined where no sample has one.
at::Tensor stack(const std::vector<Sample>& samples, at::Tensor Sample::*member, const char* name) {
  std::vector<at::Tensor> parts;
  parts.reserve(samples.size());
  const at::Tensor& first = samples.front().*member;
  for (const Sample& sample : samples) {
    const at::Tensor& part = sample.*member;
    const bool alike = part.defined() == first.defined() &&
                       (!part.defined() || (part.sizes() == first.sizes() && part.dtype() == first.dtype()));
    if (!alike) {
      throw DataError(fmt::format("samples of one batch do not stack: {} is {} in the first and {} in sample {} of it",
                                  name, words(first), words(part), parts.size()),
                      "give the loader a collate function, or make the data set give samples of one shape and dtype");
    }
    parts.push_back(part);
  }
  return first.defined() ? at::stack(parts) : at::Tensor();
}

}  // namespace

Batch stack_samples(const std::vector<Sample>& samples) {
  Batch batch;
  batch.data = stack(samples, &Sample::data, "data");
  batch.target = stack(samples, &Sample::target, "target");
  return batch;
}

std::optional<Batch> make_batch(const BatchSource& source, std::int64_t epoch, std::span<const std::int64_t> indices,
                                const std::atomic<bool>& cancelled) {
  const c10::NoGradGuard no_grad;
  std::optional<Batch> batch = source.fixed != nullptr ? fill_in_place(source, epoch, indices, cancelled)
                                                       : collate(source, epoch, indices, cancelled);
  if (!batch) return std::nullopt;
  batch->indices.assign(indices.begin(), indices.end());
  batch->size = static_cast<std::int64_t>(indices.size());
  return batch;
}

}  // namespace lockstep::data
