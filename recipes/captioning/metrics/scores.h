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

/// The scores of a corpus. All except the two CIDErs are 0 .. 1.
struct CaptionScores {
  std::array<double, kLongestNgram> bleu{};  ///< BLEU-1 .. BLEU-4
  double meteor_exact = 0;                   ///< see meteor.h: not comparable with METEOR
  double rouge_l = 0;
  double cider = 0;                  ///< without clipping and length penalty (the paper's first form), times 10
  double cider_d = 0;                ///< called CIDEr in COCO's evaluation
  std::vector<double> cider_d_each;  ///< of each caption, by ascending index
};

/// The network's caption of an image, and the annotators' captions.
struct ScoredCaption {
  std::int64_t index = 0;  ///< of the image in its set
  Ids hypothesis;
  std::vector<Ids> references;
};

/// The same in words (words_of).
struct WordedCaption {
  std::int64_t index = 0;
  std::vector<std::string> hypothesis;
  std::vector<std::vector<std::string>> references;
};

/// Returns the same bits for any order of the captions. An end (0) counts as a word if it is given; COCO gives none.
/// frequencies: for CIDEr and CIDEr-D; nullptr: those of the references, with which a single image scores 0.
/// Throws: UsageError if an image occurs twice or has no reference. Returns zeros if there is no caption.
[[nodiscard]] CaptionScores score_captions(std::vector<ScoredCaption> captions,
                                           std::shared_ptr<const DocumentFrequencies> frequencies = nullptr);

/// With the references' own frequencies; words get ids in the order of their first use.
[[nodiscard]] CaptionScores score_captions(std::vector<WordedCaption> captions);

}  // namespace lockstep::captioning
