// SPDX-License-Identifier: Apache-2.0
// MixUp and CutMix mix the samples of a batch with their neighbours and produce soft targets. Use one object twice: as
// the last step of the transform it draws random numbers, and as the loader's collate function it mixes.
#pragma once

#include <vector>

#include "lockstep/data/dataset.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Blends each sample with the previous sample of the batch: share * x + (1 - share) * neighbour, with a share drawn
/// for each batch from Beta(alpha, alpha). The targets (int64 classes) become class shares, float32 [B, classes].
/// Source: Zhang et al. 2018; torchvision's RandomMixup.
/// Example: const MixUp mix{.classes = 10};
///          auto set = image_dataset(source, Compose{ToTensor{}, mix});
///          DataLoader loader(set, {.batch_size = 64, .collate = mix});
struct MixUp {
  std::int64_t classes = 0;  ///< number of classes; required
  double alpha = 0.2;        ///< parameter of Beta(alpha, alpha): small values leave one image almost unchanged
  double p = 1.0;            ///< probability that a batch is mixed

  /// Draws the numbers for the collate function, and stores them in Sample::extra.
  void operator()(Sample& sample, SampleRandom& random) const;
  /// Throws: UsageError if a sample has no drawn numbers, or `classes` is not positive; DataError if a class is too
  ///         large.
  [[nodiscard]] Batch operator()(const std::vector<Sample>& samples) const;
};

/// Copies a rectangle of the previous sample into each sample. The rectangle's share of the area is the previous
/// sample's share of the target. The area is drawn for each batch from Beta(alpha, alpha). Source: Yun et al. 2019;
/// torchvision's RandomCutmix.
struct CutMix {
  std::int64_t classes = 0;  ///< number of classes; required
  double alpha = 1.0;        ///< parameter of the distribution Beta(alpha, alpha)
  double p = 1.0;            ///< probability that a batch is mixed

  void operator()(Sample& sample, SampleRandom& random) const;
  [[nodiscard]] Batch operator()(const std::vector<Sample>& samples) const;
};

}  // namespace lockstep

#pragma GCC visibility pop
