// SPDX-License-Identifier: Apache-2.0
// A part of a set that is held out for the test, for sets without lists of splits. No torch header.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/data/picture.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Some pictures of a source, in their order there.
class ImageSubset final : public ImageSource {
 public:
  ImageSubset(std::shared_ptr<const ImageSource> whole, std::vector<std::int64_t> indices)
      : whole_(std::move(whole)), indices_(std::move(indices)) {}

  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override { return whole_->get(in_whole(index)); }
  [[nodiscard]] std::string describe(std::int64_t index) const override { return whole_->describe(in_whole(index)); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return whole_->class_names(); }

  /// Returns the source of the pictures.
  [[nodiscard]] const ImageSource& whole() const noexcept { return *whole_; }
  /// Returns the index of picture `index` in the whole set.
  [[nodiscard]] std::int64_t in_whole(std::int64_t index) const { return indices_[static_cast<std::size_t>(index)]; }

 private:
  std::shared_ptr<const ImageSource> whole_;
  std::vector<std::int64_t> indices_;
};

/// The two parts of a set, as indices in their order.
struct HeldOut {
  std::vector<std::int64_t> rest;      ///< for training
  std::vector<std::int64_t> held_out;  ///< for evaluation
};

/// Holds out `fraction` of the pictures, at least one. The choice depends on `seed` and the names of their files,
/// without folders: it is the same on every machine, in whatever order a folder lists them. Throws: UsageError unless 0
/// < fraction < 1; DataError if there are fewer than two pictures.
[[nodiscard]] HeldOut hold_out(const ImageSource& source, double fraction, std::uint64_t seed);

}  // namespace lockstep

#pragma GCC visibility pop
