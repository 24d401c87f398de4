// SPDX-License-Identifier: Apache-2.0
// Tally: an evaluation whose metrics are computed from all samples at once, such as a ranking of all detections.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "lockstep/train/task.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Gathers the data for metrics that are not sums over samples.
/// 1. Every rank creates a Tally and adds the batches that it evaluates; each sample is added once, on one rank.
/// 2. Every rank gets all ranks' bytes, in rank order, and computes the same metrics from them. The metrics must not
///    depend on which rank had which sample, so sort by a property of the samples first.
///
/// Must be used from the evaluating thread.
class Tally {
 public:
  virtual ~Tally() = default;

  /// Called before the first batch if results() will be called for all samples, as in `lockstep eval --results`. A
  /// tally that otherwise keeps only what the metrics need must then keep everything.
  virtual void keep_all() {}

  /// Adds the outputs of a batch of the evaluation set; the model is in evaluation mode.
  virtual void add(const Outputs& outputs, const Batch& batch) = 0;

  /// Returns the data of this rank's batches that the other ranks need.
  [[nodiscard]] virtual std::string bytes() const = 0;

  /// Returns the metrics from the bytes() of all ranks; the progress lines show the first one. It is called once,
  /// before the functions below. Throws: DataError if no rank added a sample.
  [[nodiscard]] virtual std::vector<Metric> metrics(const std::vector<std::string>& parts) = 0;

  /// Returns additional text for the end of an evaluation; may be empty.
  [[nodiscard]] virtual std::string report() const { return ""; }

  /// Returns the files, name to content, that each evaluation writes to the run's `result` folder. `epoch` counts from
  /// 1, and is 0 outside training (after keep_all()). Called only on rank 0.
  [[nodiscard]] virtual std::map<std::string, std::string> results(std::int64_t /*epoch*/) const { return {}; }

  /// Writes images into `folder`, which exists. Called only on rank 0, at the end of a run or on request.
  /// Returns: the files.
  [[nodiscard]] virtual std::vector<std::filesystem::path> draw(const std::filesystem::path& /*folder*/) const {
    return {};
  }
};

}  // namespace lockstep

#pragma GCC visibility pop
