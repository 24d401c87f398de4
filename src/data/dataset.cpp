// SPDX-License-Identifier: Apache-2.0
// Data sets made from a function, and get() of a FixedShapeDataset.
#include "lockstep/data/dataset.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

/// Returns the row if there is one that fits, and gives it up: a second tensor for the same sample is new memory.
at::Tensor row_or_fresh(void*& row, bool fits, at::IntArrayRef sizes, c10::ScalarType type) {
  if (row == nullptr || !fits) return at::empty(sizes, type);
  return at::from_blob(std::exchange(row, nullptr), sizes, type);
}

}  // namespace

at::Tensor SampleContext::empty_data(at::IntArrayRef sizes, c10::ScalarType type) const {
  const bool fits = spec != nullptr && spec->data_type == type && sizes == at::IntArrayRef(spec->data_shape);
  return row_or_fresh(slot.data, fits, sizes, type);
}

at::Tensor SampleContext::empty_target(at::IntArrayRef sizes, c10::ScalarType type) const {
  const bool fits = spec != nullptr && spec->target_type == type && sizes == at::IntArrayRef(spec->target_shape);
  return row_or_fresh(slot.target, fits, sizes, type);
}

FunctionDataset::FunctionDataset(std::int64_t size, Function function) : size_(size), function_(std::move(function)) {
  if (size < 0) throw UsageError(fmt::format("a data set cannot have {} samples", size));
}

Sample FixedShapeDataset::get(std::int64_t index, SampleContext& context) {
  const SampleSpec shape = spec();
  Sample sample{at::empty(shape.data_shape, shape.data_type), {}, {}};
  SampleSlot slot{sample.data.data_ptr(), nullptr};
  if (shape.target_type != c10::ScalarType::Undefined) {
    sample.target = at::empty(shape.target_shape, shape.target_type);
    slot.target = sample.target.data_ptr();
  }
  get_into(index, context, slot);
  return sample;
}

}  // namespace lockstep
