// SPDX-License-Identifier: Apache-2.0
// `batch_size: auto`: the largest batch that fits in memory on every rank's GPU.
#pragma once

#include <cstdint>

#include "train/setup/batch_probe.h"

namespace lockstep::train {

/// The largest batch tried.
inline constexpr std::int64_t kLargestAutoBatch = 65'536;

/// Throws: UsageError if `config` has batch_size auto on a device whose memory is not a limit.
void require_measurable(const TrainConfig& config, const c10::Device& device);

/// Searches on all ranks at the same time, and returns the smallest result, at most kLargestAutoBatch and a replica's
/// share of the data set. Restores the random state and releases the memory.
///
/// Collective: yes.
/// Blocks: until the last rank has its result.
/// Throws: ResourceError, on every rank, if not even one sample fits; anything a step or the data set throws.
[[nodiscard]] std::int64_t find_batch_size(const Untried& run);

/// For tests: while this object lives, any device's memory counts as a limit.
class MeasureAnyDevice {
 public:
  MeasureAnyDevice();
  ~MeasureAnyDevice();
  MeasureAnyDevice(const MeasureAnyDevice&) = delete;
  MeasureAnyDevice& operator=(const MeasureAnyDevice&) = delete;
};

}  // namespace lockstep::train
