// SPDX-License-Identifier: Apache-2.0
// Makes one batch out of samples: in the calling thread, without knowing about workers or order.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "lockstep/data/dataset.h"
#include "lockstep/data/loader.h"

namespace lockstep::data {

/// What a batch is made of besides its indices.
struct BatchSource {
  Dataset* dataset = nullptr;
  FixedShapeDataset* fixed = nullptr;  ///< the same set, where it writes in place and nobody collates
  Collate collate;
  std::uint64_t seed = 0;
  bool pin_memory = false;
};

/// None where `cancelled` became true before it was done.
/// Throws: what the data set throws; DataError where samples do not stack.
[[nodiscard]] std::optional<Batch> make_batch(const BatchSource& source, std::int64_t epoch,
                                              std::span<const std::int64_t> indices,
                                              const std::atomic<bool>& cancelled);

/// The default collate function.
[[nodiscard]] Batch stack_samples(const std::vector<Sample>& samples);

}  // namespace lockstep::data
