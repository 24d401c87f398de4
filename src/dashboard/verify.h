// SPDX-License-Identifier: Apache-2.0
// Verifies a checkpoint with the program that can: lockstep-worker.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

namespace lockstep::dashboard {

/// Returns {"whole": true|false, "text"}: what `lockstep checkpoint verify` says. Blocks: while it reads the files.
[[nodiscard]] nlohmann::json verify_checkpoint(const std::filesystem::path& checkpoint);

}  // namespace lockstep::dashboard
