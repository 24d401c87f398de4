// SPDX-License-Identifier: Apache-2.0
// Creates a data set from a source of images and a transform.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "lockstep/data/compose.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The data set behind image_dataset().
template <class Transform>
class ImageDataset final : public Dataset {
 public:
  ImageDataset(std::shared_ptr<const ImageSource> source, Transform transform)
      : source_(std::move(source)), transform_(std::move(transform)) {}

  [[nodiscard]] std::int64_t size() const override { return source_->size(); }
  Sample get(std::int64_t index, SampleContext& context) override {
    auto sample = detail::apply_step<AnnotatedImage>(transform_, source_->get(index), context);
    static_assert(std::is_same_v<decltype(sample), Sample>,
                  "the transform of image_dataset() must return a Sample: ToTensor produces one");
    return sample;
  }
  [[nodiscard]] std::string describe(std::int64_t index) const override { return source_->describe(index); }

 private:
  std::shared_ptr<const ImageSource> source_;
  const Transform transform_;
};

/// Creates a data set of the images from `source`, each passed through `transform`: a Compose or another callable that
/// turns an AnnotatedImage into a Sample and has the parameters of a step of Compose. Thread-safe: `transform` must be;
/// several loader workers call it at once. Throws: get() throws anything that `source` or `transform` throws.
/// Example: image_dataset(source, Compose{RandomResizedCrop{}, HorizontalFlip{}, ToTensor{.normalize = Normalize{}}})
template <class Transform>
[[nodiscard]] std::shared_ptr<Dataset> image_dataset(std::shared_ptr<const ImageSource> source, Transform transform) {
  return std::make_shared<ImageDataset<Transform>>(std::move(source), std::move(transform));
}

}  // namespace lockstep

#pragma GCC visibility pop
