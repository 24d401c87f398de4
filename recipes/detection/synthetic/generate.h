// SPDX-License-Identifier: Apache-2.0
// Generates synthetic scenes for detection, as PNG files with COCO's JSON. Independent of models and training. No torch
// header.
#pragma once

#include <cstdint>
#include <filesystem>

#include "common/set_files.h"
#include "detection/synthetic/scene.h"

namespace lockstep::detection {

inline constexpr common::SideRange kSides{64, 2048};  ///< pixels; the smallest image still has room for 30 objects

struct GenerateOptions {
  std::filesystem::path out;  ///< created if missing; must not hold annotations.json or images
  std::int64_t count = 0;
  std::uint64_t seed = 0;
  common::SideRange size = {160, 160};  ///< width and height are drawn separately
  SceneObjects objects = SceneObjects::kMany;
  std::int64_t threads = 0;  ///< 0 means one per processor; the bytes do not depend on it
};

/// Writes `count` images images/<index>.png and, after all of them, annotations.json: image ids from 1, categories from
/// 1 in the order of kinds_in(), with boxes tight around the whole shape, areas in pixels. The same options give the
/// same bytes on any number of threads; a longer set begins with the images of a shorter one.
/// Throws: UsageError if an option is out of range or `out` already holds a set; IoError if a file cannot be written.
void generate_scenes(const GenerateOptions& options, const common::IndexProgress& progress = nullptr);

}  // namespace lockstep::detection
