// SPDX-License-Identifier: Apache-2.0
// The record of one replayed step: samples, losses, the digests of all operators, gradients. `lockstep explain` shows a
// record; `lockstep bisect` compares two.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/observe/operator_values.h"
#include "lockstep/train/run_sink.h"

namespace lockstep::worker {

/// A sample as a replica read it.
struct SampleRecord {
  std::int64_t index = 0;    ///< index in the training set
  std::string name;          ///< Dataset::describe(): its file, if it has one
  std::uint64_t digest = 0;  ///< digest of its row in the batch; 0: the batch has no row per sample
  double loss = 0;           ///< loss of the sample alone, in training mode; NaN if it was not computed
};

/// One replica's part of the step.
struct BatchRecord {
  int replica = 0;
  std::uint64_t data = 0;      ///< digest of Batch::data
  std::uint64_t target = 0;    ///< digest of Batch::target
  std::vector<double> losses;  ///< total loss, and its parts if there are several
  std::vector<SampleRecord> samples;
  std::vector<observe::OperatorValue> values;
};

/// The all-reduced gradient of one parameter.
struct GradientRecord {
  std::string name;
  std::uint64_t digest = 0;
  double norm = 0;
};

struct StepRecord {
  std::int64_t step = 0;
  std::int64_t from_step = 0;        ///< step from which the replay resumed; 0: it started at the run's first step
  std::string platform;              ///< checkpoint::platform() of the replay
  double lr = 0;                     ///< learning rate of the step
  double loss = 0;                   ///< mean over all replicas; NaN if it was not finite
  std::uint64_t weights = 0;         ///< digest of parameters and buffers before the step
  std::optional<StepDigest> digest;  ///< digest of the step, as in the run's chain; none: the step ended early
  std::vector<BatchRecord> batches;  ///< ordered by replica, then as the replica computed them
  std::vector<GradientRecord> gradients;
};

/// Writes a record as JSON. Throws: IoError.
void write_record(const StepRecord& record, const std::filesystem::path& file);
/// Reads a record that write_record() wrote. Throws: DataError, IoError.
[[nodiscard]] StepRecord read_record(const std::filesystem::path& file);

}  // namespace lockstep::worker
