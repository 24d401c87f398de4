// SPDX-License-Identifier: Apache-2.0
// From a picture to a sample: the last step but for those that work on tensors.
#pragma once

#include <array>
#include <functional>
#include <optional>

#include "lockstep/data/dataset.h"
#include "lockstep/data/picture.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// (value - mean) / deviation of each channel. The defaults are ImageNet's statistics of values in 0 .. 1.
struct Normalize {
  std::array<float, 3> mean{0.485F, 0.456F, 0.406F};
  std::array<float, 3> deviation{0.229F, 0.224F, 0.225F};

  /// In place, with the bits of torchvision's. As a part of ToTensor it costs no pass of its own.
  /// Shapes: float32, C x H x W with 1 or 3 channels. Throws: UsageError where it is not.
  [[nodiscard]] Sample operator()(Sample sample) const;
};

/// What of a picture becomes Sample::target or Sample::extra. Thread-safe: has to be.
using PictureTarget = std::function<void(const AnnotatedImage&, const SampleContext&, Sample&)>;

/// The picture's class as an int64 scalar. Throws: DataError where a picture has none.
struct ClassTarget {
  void operator()(const AnnotatedImage& image, const SampleContext& context, Sample& sample) const;
};

/// Values of map `index` as int64, H x W. Throws: DataError where a picture has no such map.
struct MapTarget {
  std::size_t index = 0;
  void operator()(const AnnotatedImage& image, const SampleContext& context, Sample& sample) const;
};

/// The objects of one picture: what DetectionTarget puts into Sample::extra.
struct Detections {
  at::Tensor boxes;   ///< float32, n x 4
  at::Tensor labels;  ///< int64, n
  at::Tensor areas;   ///< float32, n: pixels
  at::Tensor crowd;   ///< bool, n
  ImageSize size;     ///< of the picture that the network sees
  std::int64_t id = 0;
};

/// Detections, with boxes as corners in pixels, or as middle and size in 0 .. 1.
struct DetectionTarget {
  bool centered = false;
  void operator()(const AnnotatedImage& image, const SampleContext& context, Sample& sample) const;
};

/// 8-bit pixels to float32 C x H x W in 0 .. 1, written straight into the batch where there is one.
struct ToTensor {
  std::optional<Normalize> normalize = {};  ///< in the same pass
  PictureTarget target = {};                ///< none: the picture's class where it has one, else no target

  /// Throws: DataError naming the file that cannot be decoded.
  [[nodiscard]] Sample operator()(AnnotatedImage& image, const SampleContext& context) const;
};

}  // namespace lockstep

#pragma GCC visibility pop
