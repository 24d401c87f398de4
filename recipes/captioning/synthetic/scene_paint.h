// SPDX-License-Identifier: Apache-2.0
// The pixels of a scene. No torch header.
#pragma once

#include "captioning/synthetic/scene.h"
#include "lockstep/data/decode.h"

namespace lockstep::captioning {

/// Shapes with soft edges on a ground that is lit from a side and has patches; noise on every channel. Three channels;
/// the same scene and size give the same bytes. Shapes keep their proportions: their size is that of the shorter side.
/// Throws: UsageError where a side is not within 32 .. 4096 pixels.
[[nodiscard]] Image paint_scene(const Scene& scene, ImageSize size);

}  // namespace lockstep::captioning
