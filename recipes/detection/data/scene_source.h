// SPDX-License-Identifier: Apache-2.0
// Scenes that are drawn in memory instead of read from files, for a first run without any data. No torch header.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/data/picture.h"

namespace lockstep::detection {

/// The pictures that `lockstep generate detection` writes for the numbers of "scenes:COUNT:SEED" (common/scene_set.h),
/// `side` pixels each way. All are drawn now, in about 3 ms each. Throws: UsageError if the path does not name scenes.
[[nodiscard]] std::shared_ptr<const ImageSource> make_scene_source(const std::string& path, std::int64_t side);

}  // namespace lockstep::detection
