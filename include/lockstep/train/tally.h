// SPDX-License-Identifier: Apache-2.0
// Tally: an evaluation whose figures are made of all samples at once, such as a ranking of all detections.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "lockstep/train/task.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// 1. Every rank makes one and adds the batches that it evaluates; each sample is added on one rank, once.
/// 2. Every rank gets the bytes of all of them, by rank, and makes the same metrics of them. They must not depend on
///    which rank had which sample: sort by something of the sample first.
///
/// Owned by the thread that evaluates.
class Tally {
 public:
  virtual ~Tally() = default;

  /// Outputs of a batch of the evaluation set; the model is in evaluation mode.
  virtual void add(const Outputs& outputs, const Batch& batch) = 0;

  /// What the ranks have to know of what was added here.
  [[nodiscard]] virtual std::string bytes() const = 0;

  /// The metrics of the parts of all ranks, the first one for the progress lines. Called once; what follows is asked
  /// for afterwards. Throws: DataError where no sample was added anywhere.
  [[nodiscard]] virtual std::vector<Metric> metrics(const std::vector<std::string>& parts) = 0;

  /// More words, for the end of an evaluation; may be empty.
  [[nodiscard]] virtual std::string report() const { return ""; }

  /// Files that each evaluation leaves in the run folder's `result`: name to content. `epoch`: from 1. Called on the
  /// rank 0.
  [[nodiscard]] virtual std::map<std::string, std::string> results(std::int64_t /*epoch*/) const { return {}; }

  /// Writes pictures into `folder`, which is there. Called on rank 0 only, at the end of a run, or where a
  /// person asks for them. Returns: the files.
  [[nodiscard]] virtual std::vector<std::filesystem::path> draw(const std::filesystem::path& /*folder*/) const {
    return {};
  }
};

}  // namespace lockstep

#pragma GCC visibility pop
