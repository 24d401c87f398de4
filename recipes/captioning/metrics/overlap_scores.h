// SPDX-License-Identifier: Apache-2.0
// BLEU-1 to BLEU-4 of a corpus and ROUGE-L of one caption: how much of what it says people say too. No torch header.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "captioning/metrics/ngram.h"

namespace lockstep::captioning {

/// Counts of n-grams over all captions, each at most as often as one of its references has it; the length is held
/// against the closest reference (the shorter of two equally close).
/// Source: Papineni et al., BLEU, 2002; the small numbers that keep empty counts from dividing by zero (1e-15 above,
///         1e-9 below) are those of COCO's evaluation.
class Bleu {
 public:
  /// Throws: UsageError where there is no reference.
  void add(const Ids& hypothesis, const std::vector<Ids>& references);
  /// BLEU-1 to BLEU-4, each the geometric mean of the precisions up to its n; zeros where nothing was added.
  [[nodiscard]] std::array<double, kLongestNgram> scores() const;

 private:
  std::array<std::int64_t, kLongestNgram> matched_{};
  std::array<std::int64_t, kLongestNgram> there_{};
  std::int64_t length_ = 0;
  std::int64_t reference_length_ = 0;
};

/// F-measure with beta = 1.2 of the longest common subsequence; precision and recall are each the best of all
/// references, as in COCO's evaluation. A corpus has the mean of its captions.
/// Throws: UsageError where there is no reference. Source: Lin, ROUGE, 2004.
[[nodiscard]] double rouge_l(const Ids& hypothesis, const std::vector<Ids>& references);

}  // namespace lockstep::captioning
