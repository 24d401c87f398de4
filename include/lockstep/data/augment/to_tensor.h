// SPDX-License-Identifier: Apache-2.0
// Turns an image into a sample. Only steps that work on tensors can follow it.
#pragma once

#include <array>
#include <functional>
#include <optional>

#include "lockstep/data/dataset.h"
#include "lockstep/data/picture.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Computes (value - mean) / deviation for each channel. The defaults are ImageNet's statistics of values in 0 .. 1.
struct Normalize {
  std::array<float, 3> mean{0.485F, 0.456F, 0.406F};       ///< mean of each channel
  std::array<float, 3> deviation{0.229F, 0.224F, 0.225F};  ///< standard deviation of each channel

  /// Normalizes bit for bit as torchvision does. Inside ToTensor it needs no extra pass. Memory that another tensor
  /// uses, such as a data set's, is copied first; clone() a tensor that from_blob() made of a data set's memory.
  /// Shapes: float32, C x H x W with 1 or 3 channels. Throws: UsageError for any other dtype or shape.
  [[nodiscard]] Sample operator()(Sample sample) const;
};

/// Sets Sample::target or Sample::extra from an image. It must be thread-safe.
using PictureTarget = std::function<void(const AnnotatedImage&, const SampleContext&, Sample&)>;

/// Makes the image's class the target, as an int64 scalar. Throws: DataError if an image has no class.
struct ClassTarget {
  void operator()(const AnnotatedImage& image, const SampleContext& context, Sample& sample) const;
};

/// Makes label map `index` the target, as int64, H x W. Throws: DataError if an image has no such map.
struct MapTarget {
  std::size_t index = 0;  ///< index in AnnotatedImage::maps
  void operator()(const AnnotatedImage& image, const SampleContext& context, Sample& sample) const;
};

/// The objects of one image. DetectionTarget stores them in Sample::extra.
struct Detections {
  at::Tensor boxes;     ///< float32, n x 4
  at::Tensor labels;    ///< int64, n
  at::Tensor areas;     ///< float32, n: areas in pixels
  at::Tensor crowd;     ///< bool, n: Object::crowd
  ImageSize size;       ///< size of the image as the network sees it
  std::int64_t id = 0;  ///< the sample's index in its set
};

/// Stores Detections in Sample::extra, with boxes as corners in pixels, or as centre and size in 0 .. 1.
struct DetectionTarget {
  bool centered = false;  ///< boxes as centre and size in 0 .. 1; false: corners in pixels
  void operator()(const AnnotatedImage& image, const SampleContext& context, Sample& sample) const;
};

/// Converts 8-bit pixels to float32 C x H x W in 0 .. 1, directly into the batch if there is one.
struct ToTensor {
  std::optional<Normalize> normalize = {};  ///< statistics to normalize with, in the same pass
  PictureTarget target = {};                ///< function that sets the target; none: the image's class, if it has one

  /// Throws: DataError naming the file that cannot be decoded.
  [[nodiscard]] Sample operator()(AnnotatedImage& image, const SampleContext& context) const;
};

}  // namespace lockstep

#pragma GCC visibility pop
