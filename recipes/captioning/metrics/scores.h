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

/// The scores of a corpus. All except the two CIDErs are in 0 .. 1.
struct CaptionScores {
  std::array<double, kLongestNgram> bleu{};  ///< BLEU-1 .. BLEU-4
  double meteor_exact = 0;                   ///< see meteor.h: not comparable with METEOR
  double rouge_l = 0;
  double cider = 0;                  ///< CIDEr without clipping or length penalty (the paper's first form), times 10
  double cider_d = 0;                ///< CIDEr-D, which COCO's evaluation calls CIDEr
  std::vector<double> cider_d_each;  ///< CIDEr-D of each caption, by ascending index
};

/// The network's caption of an image, and the annotators' captions.
struct ScoredCaption {
  std::int64_t index = 0;  ///< index of the image in its set
  Ids hypothesis;
  std::vector<Ids> references;
};

/// A ScoredCaption in words (words_of()).
struct WordedCaption {
  std::int64_t index = 0;
  std::vector<std::string> hypothesis;
  std::vector<std::vector<std::string>> references;
};

/// Returns the scores, bitwise identical for any order of the captions; zeros if there are no captions. An end mark (0)
/// counts as a word if the captions have one; COCO's do not. frequencies: document frequencies for CIDEr and CIDEr-D;
/// if nullptr, they are computed from the references themselves, and a single image then scores 0.
/// Throws: UsageError if an image occurs twice or has no reference.
[[nodiscard]] CaptionScores score_captions(std::vector<ScoredCaption> captions,
                                           std::shared_ptr<const DocumentFrequencies> frequencies = nullptr);

/// Does the same for captions given as words, with document frequencies from the references themselves; ids are
/// assigned in order of first use.
[[nodiscard]] CaptionScores score_captions(std::vector<WordedCaption> captions);

}  // namespace lockstep::captioning
