// SPDX-License-Identifier: Apache-2.0
// The settings that a result depends on, and the ones that differ between two runs. Pure functions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lockstep/train/train_config.h"

namespace lockstep::train {

/// Returns all settings as YAML, `recipe` first, for the config.yml of the run folder and of each checkpoint.
[[nodiscard]] std::string settings_text(const std::string& recipe, const TrainConfig& config);

/// A setting with different values in two runs.
struct Difference {
  std::string key;
  std::string before;
  std::string now;
  OnResume resume = OnResume::kError;  ///< the row's rule; kFreeToBegin is decided later
};

/// Returns the settings of `now` that differ from `before` and would change the result of the resumed run. A setting
/// that its row marks as free (OnResume) is excluded. `replicas` and `threads` come from the checkpoint and are
/// compared elsewhere. A key without a row is not free. Keys missing from `before` come from a later version and count
/// as equal.
[[nodiscard]] std::vector<Difference> differences(const std::string& before, const std::string& now,
                                                  const ConfigFields& rows);

/// Returns the settings that the ranks of one run must have in common, by key: all except those that may differ by
/// host.
[[nodiscard]] std::map<std::string, std::string> common_settings(const std::string& settings, const ConfigFields& rows);

/// Returns a hash of all settings that differences() compares, as 16 hexadecimal digits.
[[nodiscard]] std::string configuration_hash(const std::string& settings, const ConfigFields& rows);

}  // namespace lockstep::train
