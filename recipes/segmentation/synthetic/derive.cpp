// SPDX-License-Identifier: Apache-2.0
#include "segmentation/synthetic/derive.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::segmentation {
namespace {

// Random streams that differ from the scene's stream with the same seed.
constexpr std::uint64_t kScribbleStream = 0x7363726962626c65;
constexpr std::uint64_t kCoarseStream = 0x636f617273650000;

}  // namespace

PseudoMethod parse_pseudo_method(const std::string& name) {
  if (name == "watershed") return PseudoMethod::kWatershed;
  if (name == "coarse") return PseudoMethod::kCoarse;
  throw UsageError(fmt::format("there is no pseudo-label method '{}'", name), "use watershed or coarse");
}

SampleRandom scribble_random(std::uint64_t seed, std::int64_t index) {
  return SampleRandom(seed ^ kScribbleStream, 0, static_cast<std::uint64_t>(index));
}

SampleRandom coarse_random(std::uint64_t seed, std::int64_t index) {
  return SampleRandom(seed ^ kCoarseStream, 0, static_cast<std::uint64_t>(index));
}

WeakLabels derive_weak_labels(const Image& picture, const NumberMap& mask, Numbers meaning, const WeakOptions& options,
                              std::int64_t index) {
  WeakLabels labels;
  SampleRandom chance = scribble_random(options.seed, index);
  labels.scribbles = derive_scribbles(mask, meaning, options.scribbles, chance);
  if (options.method == PseudoMethod::kWatershed) {
    labels.pseudo_labels = watershed_labels(picture, labels.scribbles);
  } else {
    SampleRandom coarse = coarse_random(options.seed, index);
    labels.pseudo_labels = coarse_labels(classes_of(mask, meaning), options.coarse, coarse);
  }
  labels.scribble_distances = scribble_distance_map(labels.scribbles, options.scribble_lambda);
  labels.class_distances = class_distance_map(labels.pseudo_labels, options.contour_lambda);
  return labels;
}

}  // namespace lockstep::segmentation
