// SPDX-License-Identifier: Apache-2.0
// The recipe's ready settings, compiled in from recipes/captioning/*.yml.
#pragma once

#include <map>
#include <string>

namespace lockstep::captioning {

/// Preset name (the file's name without .yml) to its YAML text.
[[nodiscard]] std::map<std::string, std::string> presets();

}  // namespace lockstep::captioning
