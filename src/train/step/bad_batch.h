// SPDX-License-Identifier: Apache-2.0
// A batch that ended a run, as a file for a person to look at.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "lockstep/data/dataset.h"
#include "lockstep/train/task.h"

namespace lockstep::train {

/// The replica of a bad batch, and the fault.
struct BadBatch {
  std::int64_t step = 0;
  int replica = 0;
  std::string fault;
};

/// Writes <folder>/step-00000012-replica-3-batch-7.safetensors: task.batch_state(), and in its metadata the fault, the
/// epoch and each sample's description (dataset.describe()). Returns: its path. Throws: IoError.
std::filesystem::path write_bad_batch(const Task& task, const Dataset& dataset, const Batch& batch, const BadBatch& bad,
                                      const std::filesystem::path& folder);

}  // namespace lockstep::train
