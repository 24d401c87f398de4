// SPDX-License-Identifier: Apache-2.0
// Which settings a result depends on, and in which of them two runs differ. Pure functions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lockstep/train/train_config.h"

namespace lockstep::train {

/// All settings as YAML, `recipe` first: config.yml of the run folder and of each checkpoint.
[[nodiscard]] std::string settings_text(const std::string& recipe, TrainConfig& config);

/// A setting that two runs have differently.
struct Difference {
  std::string key;
  std::string before;
  std::string now;
};

/// The settings of `now` that differ from `before` and would change the result of going on. Free are: how fast
/// (workers, prefetch_factor, bucket_cap_mb, optimizer.zero), what is written (log_every_steps, checkpoint.*), when it
/// is evaluated and ends (eval_every_epochs unless schedule.type is plateau, stop_at.*), where the same samples lie
/// (data.train, data.test), and, unless the schedule depends on it, how long (epochs, max_steps). `replicas` and
/// `threads` come from the checkpoint and are compared elsewhere. Keys that `before` does not have are of a later
/// version and count as equal.
[[nodiscard]] std::vector<Difference> differences(const std::string& before, const std::string& now);

/// What the ranks of one run must have in common, by key: all but where a host has its data and how it loads them.
[[nodiscard]] std::map<std::string, std::string> common_settings(const std::string& settings);

/// 16 hexadecimal digits over all settings that differences() looks at.
[[nodiscard]] std::string configuration_hash(const std::string& settings);

}  // namespace lockstep::train
