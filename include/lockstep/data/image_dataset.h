// SPDX-License-Identifier: Apache-2.0
// From a source of pictures and a transform to a data set.
#pragma once

#include <memory>
#include <utility>

#include "lockstep/data/compose.h"

namespace lockstep {

/// The pictures of `source`, each passed through `transform`: a Compose or any other callable that makes a Sample of an
/// AnnotatedImage, as a step of Compose is called.
/// Thread-safe: as `transform`, which several loader workers call at once. Throws: from get: what they throw.
/// Example: image_dataset(source, Compose{RandomResizedCrop{}, HorizontalFlip{}, ToTensor{.normalize = Normalize{}}})
template <class Transform>
[[nodiscard]] std::shared_ptr<Dataset> image_dataset(std::shared_ptr<const ImageSource> source, Transform transform) {
  const std::int64_t size = source->size();
  return std::make_shared<FunctionDataset>(
      size, [from = std::move(source), change = std::move(transform)](std::int64_t index, SampleContext& context) {
        auto sample = detail::apply_step<AnnotatedImage>(change, from->get(index), context);
        static_assert(std::is_same_v<decltype(sample), Sample>,
                      "the transform of image_dataset() has to end in a Sample: ToTensor makes one");
        return sample;
      });
}

}  // namespace lockstep
