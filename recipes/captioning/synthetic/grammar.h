// SPDX-License-Identifier: Apache-2.0
// What several people say about a scene. No torch header.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "captioning/synthetic/scene.h"

namespace lockstep::captioning {

inline constexpr std::size_t kSceneCaptions = 5;

/// kSceneCaptions different captions of 4 to 14 words, all true. They differ as people do: in what they begin with,
/// which relation they tell (left, right, above, below, a corner, the middle), whether they tell sizes, the number or
/// the ground, in synonyms, and in being a sentence or a fragment. Most begin with what is noticed first.
[[nodiscard]] std::vector<std::string> scene_captions(const Scene& scene);

}  // namespace lockstep::captioning
