// SPDX-License-Identifier: Apache-2.0
// The files of a run folder as the page lists them. Any of them may be missing or torn.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::dashboard {

/// Returns the JSON of a file below `folder`; null where it is missing, larger than 16 MB, no JSON, or behind a link.
[[nodiscard]] nlohmann::json read_json(const std::filesystem::path& folder, const std::filesystem::path& file);

/// Returns [{"name", "step", "bytes", "files", "digest", "time", "links"}], newest first; digest is that of the
/// manifest.
[[nodiscard]] nlohmann::json list_checkpoints(const std::filesystem::path& run);

/// Returns [{"key", "value", "origin"}] of config.yml.
[[nodiscard]] nlohmann::json list_settings(const std::filesystem::path& run);

/// Returns the pictures in the run folder and in the folders in it, newest first, 60 at most: names relative to it.
[[nodiscard]] std::vector<std::string> list_pictures(const std::filesystem::path& run);

/// Returns [{"attempt", "ranks": [0, 1], "verdict": {...}}], oldest first.
[[nodiscard]] nlohmann::json list_attempts(const std::filesystem::path& run);

}  // namespace lockstep::dashboard
