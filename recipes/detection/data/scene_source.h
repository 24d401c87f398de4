// SPDX-License-Identifier: Apache-2.0
// Scenes that are drawn in memory instead of read: for a first run without any data. No torch header.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lockstep/data/picture.h"

namespace lockstep::detection {

struct SceneSetOptions {
  std::int64_t count = 0;
  std::uint64_t seed = 0;
  std::int64_t side = 160;  ///< pixels, each way
};

/// Whether a person means made-up scenes: "scenes:200" or, with a seed, "scenes:200:7".
[[nodiscard]] bool names_scenes(std::string_view path) noexcept;
/// Throws: UsageError where the numbers are none.
[[nodiscard]] SceneSetOptions parse_scenes(const std::string& path, std::int64_t side);

/// The pictures that `lockstep generate detection` writes for the same numbers. All are drawn at once: about 3 ms each.
[[nodiscard]] std::shared_ptr<const ImageSource> make_scene_source(const SceneSetOptions& options);

}  // namespace lockstep::detection
