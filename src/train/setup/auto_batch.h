// SPDX-License-Identifier: Apache-2.0
// `batch_size: auto`: the largest batch that fits into the memory of every rank's GPU.
#pragma once

#include <cstdint>

#include "train/setup/batch_probe.h"

namespace lockstep::train {

/// The largest batch that is tried.
inline constexpr std::int64_t kLargestAutoBatch = 65'536;

/// Throws: UsageError if `config` has batch_size auto on a device whose memory gives no limit.
void require_measurable(const TrainConfig& config, const c10::Device& device);

/// Searches on every rank at the same time; the smallest batch found is the result. It is at most a replica's part of
/// the data set and kLargestAutoBatch. Afterwards random state and memory are restored.
///
/// Collective: yes.
/// Blocks: until the last rank has found its own.
/// Throws: ResourceError, on every rank, if not even one sample fits; what a step or the data set throws.
[[nodiscard]] std::int64_t find_batch_size(const Untried& run);

/// For tests: while one lives, the memory of any device counts as a limit.
class MeasureAnyDevice {
 public:
  MeasureAnyDevice();
  ~MeasureAnyDevice();
  MeasureAnyDevice(const MeasureAnyDevice&) = delete;
  MeasureAnyDevice& operator=(const MeasureAnyDevice&) = delete;
};

}  // namespace lockstep::train
