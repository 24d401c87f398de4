// SPDX-License-Identifier: Apache-2.0
// Images with label maps from files; each map is checked when it is read. No torch header.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/data/picture.h"
#include "lockstep/data/sources/image_files.h"
#include "segmentation/data/label_file.h"
#include "segmentation/data/set_folders.h"

namespace lockstep::segmentation {

struct MaskedPicturesOptions {
  std::vector<MapMeaning> meanings;  ///< meanings of an image's maps
  std::int64_t classes = 2;
  std::vector<std::string> class_names = {};
  MaskValues values = plain_mask_values();  ///< class ids for the values of each image's first map
};

/// The values that occur in those label maps that were read.
struct SeenValues {
  std::array<bool, 256> values{};   ///< values in the files
  std::array<bool, 256> classes{};  ///< their class ids; kUnlabelled is not a class
  std::int64_t looked_at = 0;       ///< number of maps read
  bool all = true;                  ///< true if all maps were read

  /// The values, formatted as "0, 1, 255".
  [[nodiscard]] std::string text() const;
};

/// Images and label maps. Augmentations fill weight maps with 0, class maps with kUnlabelled. Thread-safe: get().
class MaskedPictures final : public ImageSource {
 public:
  MaskedPictures(std::vector<SampleFiles> samples, MaskedPicturesOptions options);

  [[nodiscard]] std::int64_t size() const override { return std::ssize(samples_); }
  [[nodiscard]] std::string describe(std::int64_t index) const override { return sample(index).picture.string(); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return options_.class_names; }
  /// Throws: DataError naming the file if a map differs in size from its image or has an unknown class or too many
  ///         bits, or if a file is damaged; IoError. The first unusual image of each kind that survey() did not read
  ///         gets a note.
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override;

  /// Reads the maps of at most `most` images, evenly spread, and the headers of the images. Returns notes on unusual
  /// images. Throws: anything get() throws.
  [[nodiscard]] std::vector<std::string> survey(std::int64_t most);
  /// The values in the first maps of the images that survey() read.
  [[nodiscard]] const SeenValues& seen() const noexcept { return seen_; }

 private:
  /// The names of an image's maps without labels, and the name of the image if it has 16 bits.
  struct Odd {
    std::vector<std::string> unlabelled = {};
    std::string deep = {};
  };

  [[nodiscard]] AnnotatedImage read(std::int64_t index, SeenValues* seen = nullptr) const;
  [[nodiscard]] Odd odd_in(const AnnotatedImage& picture, std::int64_t index) const;
  [[nodiscard]] const SampleFiles& sample(std::int64_t index) const {
    return samples_[static_cast<std::size_t>(index)];
  }

  std::vector<SampleFiles> samples_;
  MaskedPicturesOptions options_;
  ImageFiles pictures_;
  SeenValues seen_;
  std::int64_t survey_step_ = 0;  ///< survey() read every n-th image; 0 means that it read none
  mutable std::atomic<bool> told_unlabelled_{false};
  mutable std::atomic<bool> told_deep_{false};
};

}  // namespace lockstep::segmentation
