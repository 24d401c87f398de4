// SPDX-License-Identifier: Apache-2.0
// Writes a batch that ended a run to a file, for inspection.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "lockstep/data/dataset.h"
#include "lockstep/train/task.h"

namespace lockstep::train {

/// The replica of a bad batch, and what was wrong with it.
struct BadBatch {
  std::int64_t step = 0;
  int replica = 0;
  std::string fault;
};

/// Writes <folder>/step-00000012-replica-3-batch-7.safetensors: task.batch_state(), with the fault, the epoch and each
/// sample's description (dataset.describe()) in its metadata. Returns: the path of the file. Throws: IoError.
std::filesystem::path write_bad_batch(const Task& task, const Dataset& dataset, const Batch& batch, const BadBatch& bad,
                                      const std::filesystem::path& folder);

}  // namespace lockstep::train
