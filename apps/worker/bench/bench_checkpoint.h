// SPDX-License-Identifier: Apache-2.0
// Saving and loading the captcha network with its AdamW: what a step waits for, what the disk takes.
#pragma once

#include <cstdint>
#include <filesystem>

namespace lockstep::worker {

struct CheckpointBench {
  std::filesystem::path folder;  ///< where checkpoints are written; what is written is removed
  std::int64_t repeats = 5;
  bool json = false;
};

/// Throws: UsageError where the folder is there and not empty, IoError.
int run_checkpoint_bench(const CheckpointBench& bench);

}  // namespace lockstep::worker
