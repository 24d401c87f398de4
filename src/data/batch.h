// SPDX-License-Identifier: Apache-2.0
// Makes one batch out of samples: in the calling thread, without knowing about workers or order.
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

/// What a batch is made of besides its indices.
struct BatchSource {
  std::shared_ptr<Dataset> dataset;    ///< null for a stream
  FixedShapeDataset* fixed = nullptr;  ///< the same set, where it writes in place and nobody collates
  Collate collate;
  std::uint64_t seed = 0;
  bool pin_memory = false;
  bool skip_bad = false;
  bool replace_bad = false;  ///< a batch of only bad samples gets others; false: it stays empty
  std::int64_t shard = 0;    ///< whose batches they are

  [[nodiscard]] std::string describe(std::int64_t index) const;
};

/// What a worker is at, for those who wait for it.
struct Progress {
  std::atomic<std::int64_t> step{-1};     ///< whose batch it is making
  std::atomic<std::int64_t> index{-1};    ///< the sample being loaded
  std::atomic<std::int64_t> since_ns{0};  ///< start, in the steady clock's time
};

struct MadeBatch {
  Batch batch;
  std::vector<BadSample> skipped;
};

/// None where `cancelled` became true before it was done: nobody wants the batch any more.
/// Throws: what the data set throws; DataError where samples do not stack, or all of them are bad and no good one is
/// found in their place.
[[nodiscard]] std::optional<MadeBatch> make_batch(const BatchSource& source, const BatchTask& task,
                                                  const std::atomic<bool>& cancelled, Progress& progress);

}  // namespace lockstep::data
