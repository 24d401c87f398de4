// SPDX-License-Identifier: Apache-2.0
// `batch_size: auto`: the largest batch that fits into the memory of every rank's GPU.
#pragma once

#include <cstdint>

#include "train/setup/batch_probe.h"

namespace lockstep::train {

/// The largest batch that is tried.
inline constexpr std::int64_t kLargestAutoBatch = 65'536;

/// Throws: UsageError where `config` leaves the batch to be found on a device whose memory is no measure.
void require_measurable(const TrainConfig& config, const c10::Device& device);

/// Searches on every rank at the same time; the smallest of what they find is the result. No larger than a replica's
/// part of the data set and kLargestAutoBatch. Random state and memory are afterwards as if nothing had been tried.
///
/// Collective: yes.
/// Blocks: until the last rank has found its own.
/// Throws: ResourceError, on every rank, where not even one sample fits; what a step or the data set throws.
[[nodiscard]] std::int64_t find_batch_size(const Untried& run);

/// For tests: while one lives, the memory of any device counts as a measure.
class MeasureAnyDevice {
 public:
  MeasureAnyDevice();
  ~MeasureAnyDevice();
  MeasureAnyDevice(const MeasureAnyDevice&) = delete;
  MeasureAnyDevice& operator=(const MeasureAnyDevice&) = delete;
};

}  // namespace lockstep::train
