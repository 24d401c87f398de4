// SPDX-License-Identifier: Apache-2.0
// Scenes drawn in memory instead of read from files, for a first run without any data. No torch header.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/data/picture.h"

namespace lockstep::detection {

/// The images that `lockstep generate detection` writes for "scenes:COUNT:SEED" (common/scene_set.h),
/// `side` x `side` pixels. All are drawn immediately, in about 3 ms each. Throws: UsageError if the path does not name
/// scenes.
[[nodiscard]] std::shared_ptr<const ImageSource> make_scene_source(const std::string& path, std::int64_t side);

}  // namespace lockstep::detection
