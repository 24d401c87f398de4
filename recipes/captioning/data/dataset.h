// SPDX-License-Identifier: Apache-2.0
// A data set of images or features with word ids. Id 0 begins a sentence in the input and ends it in the target.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "captioning/data/captions.h"
#include "captioning/data/vocabulary.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/decode.h"

namespace lockstep::captioning {

/// All annotators' captions for an image: Sample::extra holds a std::shared_ptr<const ImageCaptions>.
struct ImageCaptions {
  std::int64_t index = 0;  ///< index of the image in its set
  std::string id;
  std::vector<std::string> captions;  ///< captions in full
  /// The captions for CIDEr-D over ids: each truncated to max_words, with a trailing 0. An unknown word becomes the
  /// vocabulary's kUnknownWord; in an evaluation set, if the vocabulary lacks that word, it becomes the id
  /// Vocabulary::size(), which no network predicts.
  std::vector<Ids> references;
};

/// Sample::data: float32 [3, height, width], normalised with ImageNet's mean and standard deviation; or features,
/// float32 [L, D]. Sample::target, in training sets: int64 [2, S, T] with S = captions_per_image and T = max_words + 1;
/// [0] holds inputs 0 w1 .. wn 0 .., [1] targets w1 .. wn 0 -1 ... The S captions are redrawn in each epoch, without
/// repetition; if there are fewer than S, all are used and some are repeated. Images are scaled but not mirrored,
/// because captions mention left and right.
/// Thread-safe: all methods except open(). Cost: drawn scenes stay in memory if the set takes at most 512 MB.
class CaptionDataset final : public Dataset {
 public:
  /// Throws: anything read_captions() throws; DataError naming the word if the vocabulary lacks a word of training
  ///         captions and kUnknownWord, or naming the file if the width of its features differs.
  [[nodiscard]] static std::shared_ptr<CaptionDataset> open(const SetOptions& options,
                                                            std::shared_ptr<const Vocabulary> vocabulary,
                                                            bool training);
  /// Builds the set from the images that read_captions() returned for the same options.
  [[nodiscard]] static std::shared_ptr<CaptionDataset> open(const SetOptions& options,
                                                            std::vector<CaptionedImage> images,
                                                            std::shared_ptr<const Vocabulary> vocabulary,
                                                            bool training);
  ~CaptionDataset() override;

  [[nodiscard]] std::int64_t size() const override;
  /// Throws: DataError naming a file that is damaged, implausible or of a different width.
  Sample get(std::int64_t index, SampleContext& context) override;
  [[nodiscard]] std::string describe(std::int64_t index) const override;

  [[nodiscard]] const ImageCaptions& captions(std::int64_t index) const;
  /// The width D of the features; 0 if the samples are images.
  [[nodiscard]] std::int64_t feature_width() const noexcept;
  /// The image in RGB at its original size, for a page. Throws: DataError if the set has features.
  [[nodiscard]] Image picture(std::int64_t index) const;

 private:
  class Impl;
  explicit CaptionDataset(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::captioning
