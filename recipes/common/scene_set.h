// SPDX-License-Identifier: Apache-2.0
// Parses the name of a set of images drawn in memory. No torch header.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::common {

/// The parts of "scenes:COUNT:SEED:few".
struct SceneSet {
  std::int64_t count = 0;  ///< 1 .. 10,000,000
  std::uint64_t seed = 0;
  bool few = false;  ///< few large objects, which a network learns in a minute
};

/// True if the path names scenes drawn in memory: "scenes:200"; with a seed "scenes:200:7"; easy ones
/// "scenes:200:7:few".
[[nodiscard]] bool names_scenes(std::string_view path) noexcept;

/// Throws: UsageError if the path has a different form or the count is out of range.
[[nodiscard]] SceneSet parse_scene_set(const std::string& path);

}  // namespace lockstep::common
