// SPDX-License-Identifier: Apache-2.0
// Reads the file data.skip_samples, which names samples the way `lockstep explain` prints them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep::train {

/// Returns the indices of the samples that `file` names, one per line. Empty lines and lines that begin with # are
/// ignored. A name shared by several samples refers to all of them.
/// Throws: DataError naming the line and the nearest name if the set has no such sample; IoError.
[[nodiscard]] std::vector<std::int64_t> read_skip_file(const std::filesystem::path& file, const Dataset& dataset);

}  // namespace lockstep::train
