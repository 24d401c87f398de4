// SPDX-License-Identifier: Apache-2.0
// Builds one batch from samples on the calling thread; it knows nothing about workers or ordering.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/feed.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/loader.h"

namespace lockstep::data {

/// Everything that a batch is built from, except its indices.
struct BatchSource {
  std::shared_ptr<Dataset> dataset;    ///< null for a stream
  FixedShapeDataset* fixed = nullptr;  ///< the same set, if it writes samples in place and no collate function is set
  Collate collate;
  std::uint64_t seed = 0;
  bool pin_memory = false;
  bool skip_bad = false;
  bool replace_bad = false;  ///< if every sample in a batch is bad, replace them; otherwise the batch is left empty
  std::int64_t shard = 0;    ///< the shard of the batches

  [[nodiscard]] std::string describe(std::int64_t index) const;
};

/// The current work of a worker, for threads waiting for it.
struct Progress {
  std::atomic<std::int64_t> step{-1};     ///< the batch being built
  std::atomic<std::int64_t> index{-1};    ///< the sample being loaded
  std::atomic<std::int64_t> since_ns{0};  ///< when loading of the sample started (steady_clock)
};

struct MadeBatch {
  Batch batch;
  std::vector<BadSample> skipped;
};

/// Returns none if `cancelled` became true before the batch was complete.
/// Throws: anything the data set throws; DataError if samples cannot be stacked, or if all are bad and not replaced.
[[nodiscard]] std::optional<MadeBatch> make_batch(const BatchSource& source, const BatchTask& task,
                                                  const std::atomic<bool>& cancelled, Progress& progress);

}  // namespace lockstep::data
