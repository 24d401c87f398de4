// SPDX-License-Identifier: Apache-2.0
// Scenes that are drawn in memory instead of read from files, for a first run without any data.
#pragma once

#include <memory>

#include "segmentation/data/dataset.h"

namespace lockstep::segmentation {

/// The images that `lockstep generate segmentation` writes for the same count and seed, `scene_side` x `scene_side`
/// pixels. A training set has the maps of the planes, generated with the same seed; a test set has the masks. This call
/// draws all of them.
/// Throws: UsageError if the path does not name scenes (common/scene_set.h) or there are fewer classes than
/// kSceneClasses.
[[nodiscard]] std::shared_ptr<const ImageSource> make_scene_source(const SetOptions& options, bool training);

}  // namespace lockstep::segmentation
