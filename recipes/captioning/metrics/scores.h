// SPDX-License-Identifier: Apache-2.0
// All scores of a set of captions at once. No torch header.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "captioning/metrics/cider.h"

namespace lockstep::captioning {

/// The scores of a corpus. All but the two CIDErs are 0 .. 1.
struct CaptionScores {
  std::array<double, kLongestNgram> bleu{};  ///< BLEU-1 .. BLEU-4
  double meteor_exact = 0;                   ///< see meteor.h: not comparable with METEOR
  double rouge_l = 0;
  double cider = 0;                  ///< without clipping and length penalty (the paper's first form), times 10
  double cider_d = 0;                ///< what COCO's evaluation calls CIDEr
  std::vector<double> cider_d_each;  ///< score of each caption, by ascending index
};

/// What was said of an image, and what people say of it.
struct ScoredCaption {
  std::int64_t index = 0;  ///< index of the image in its set
  Ids hypothesis;
  std::vector<Ids> references;
};

/// The same in words (words_of).
struct WordedCaption {
  std::int64_t index = 0;
  std::vector<std::string> hypothesis;
  std::vector<std::vector<std::string>> references;
};

/// The same bits whatever the order of the captions. An end (0) counts as a word where it is given; COCO gives none.
/// frequencies: for CIDEr and CIDEr-D; nullptr: those of the references, with which an only image scores 0.
/// Throws: UsageError where an image is there twice or has no reference. Zeros where there is no caption.
[[nodiscard]] CaptionScores score_captions(std::vector<ScoredCaption> captions,
                                           std::shared_ptr<const DocumentFrequencies> frequencies = nullptr);

/// With ids that are given to the words as they come, and the references' own frequencies.
[[nodiscard]] CaptionScores score_captions(std::vector<WordedCaption> captions);

}  // namespace lockstep::captioning
