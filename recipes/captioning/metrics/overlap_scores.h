// SPDX-License-Identifier: Apache-2.0
// BLEU-1 to BLEU-4 of a corpus and ROUGE-L of one caption: the overlap with annotators' captions. No torch header.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "captioning/metrics/ngram.h"

namespace lockstep::captioning {

/// Counts n-grams over all captions, each at most as often as in one of its references; the length is compared with the
/// closest reference (the shorter one if two are equally close).
/// Source: Papineni et al., BLEU, 2002; the small numbers that prevent a division by zero (1e-15 in numerators, 1e-9 in
///         denominators) are from COCO's evaluation.
class Bleu {
 public:
  /// Throws: UsageError if there is no reference.
  void add(const Ids& hypothesis, const std::vector<Ids>& references);
  /// BLEU-1 to BLEU-4, each the geometric mean of the precisions up to its n; zeros if nothing was added.
  [[nodiscard]] std::array<double, kLongestNgram> scores() const;

 private:
  std::array<std::int64_t, kLongestNgram> matched_{};
  std::array<std::int64_t, kLongestNgram> there_{};
  std::int64_t length_ = 0;
  std::int64_t reference_length_ = 0;
};

/// The F-measure, with beta = 1.2, of the longest common subsequence. Precision and recall are each the best over all
/// references, as in COCO's evaluation. The ROUGE-L of a corpus is the mean over its captions.
/// Throws: UsageError if there is no reference. Source: Lin, ROUGE, 2004.
[[nodiscard]] double rouge_l(const Ids& hypothesis, const std::vector<Ids>& references);

}  // namespace lockstep::captioning
