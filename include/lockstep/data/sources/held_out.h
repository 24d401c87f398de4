// SPDX-License-Identifier: Apache-2.0
// Holds out a part of a set for evaluation, for sets without split lists. No torch header.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/data/picture.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// A subset of the images of a source, in the order of its indices.
class ImageSubset final : public ImageSource {
 public:
  ImageSubset(std::shared_ptr<const ImageSource> whole, std::vector<std::int64_t> indices)
      : whole_(std::move(whole)), indices_(std::move(indices)) {}

  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override { return whole_->get(in_whole(index)); }
  [[nodiscard]] std::string describe(std::int64_t index) const override { return whole_->describe(in_whole(index)); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return whole_->class_names(); }

  /// Returns the source of the images.
  [[nodiscard]] const ImageSource& whole() const noexcept { return *whole_; }
  /// Returns the index of image `index` in the whole set.
  [[nodiscard]] std::int64_t in_whole(std::int64_t index) const { return indices_[static_cast<std::size_t>(index)]; }

 private:
  std::shared_ptr<const ImageSource> whole_;
  std::vector<std::int64_t> indices_;
};

/// The two parts of a set, as indices in ascending order.
struct HeldOut {
  std::vector<std::int64_t> rest;      ///< the images for training
  std::vector<std::int64_t> held_out;  ///< the images for evaluation
};

/// Holds out `fraction` of the images, at least one. The choice depends only on `seed` and the file names without
/// folders, so it is the same on every machine, regardless of file order. Throws: UsageError unless 0 < fraction < 1;
/// DataError if there are fewer than two images.
[[nodiscard]] HeldOut hold_out(const ImageSource& source, double fraction, std::uint64_t seed);

}  // namespace lockstep

#pragma GCC visibility pop
