// SPDX-License-Identifier: Apache-2.0
// Pictures with label maps from files, each map checked when it is read. No torch header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/data/picture.h"
#include "lockstep/data/sources/image_files.h"
#include "segmentation/label_file.h"
#include "segmentation/set_folders.h"

namespace lockstep::segmentation {

struct MaskedPicturesOptions {
  std::vector<MapMeaning> meanings;  ///< of the maps
  std::int64_t classes = 2;
  std::vector<std::string> class_names = {};
};

/// Maps of weights are filled with 0 by augmentations, the others with kUnlabelled.
class MaskedPictures final : public ImageSource {
 public:
  MaskedPictures(std::vector<SampleFiles> samples, MaskedPicturesOptions options);

  [[nodiscard]] std::int64_t size() const override { return std::ssize(samples_); }
  [[nodiscard]] std::string describe(std::int64_t index) const override { return sample(index).picture.string(); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return options_.class_names; }
  /// Throws: DataError naming the file where a map has another size than its picture, an unknown class or too many
  /// bits, or a file is torn; IoError.
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override;

  /// Reads the maps of at most `most` pictures, evenly spread, and the headers of the pictures. Returns: notes on what
  /// is odd. Throws: as get().
  [[nodiscard]] std::vector<std::string> survey(std::int64_t most) const;

 private:
  [[nodiscard]] const SampleFiles& sample(std::int64_t index) const {
    return samples_[static_cast<std::size_t>(index)];
  }

  std::vector<SampleFiles> samples_;
  MaskedPicturesOptions options_;
  ImageFiles pictures_;
};

}  // namespace lockstep::segmentation
