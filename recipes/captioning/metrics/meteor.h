// SPDX-License-Identifier: Apache-2.0
// The part of METEOR that needs no word lists: words match where they are equal. Its figures are lower than those of
// METEOR with stems, synonyms and paraphrases, and not comparable with them. No torch header.
#pragma once

#include <cstdint>
#include <vector>

#include "captioning/metrics/ngram.h"

namespace lockstep::captioning {

/// What an alignment of a caption with a reference comes to; sums over captions stand for a corpus.
struct MeteorCounts {
  std::int64_t matches = 0;    ///< words that both have, each used once
  std::int64_t chunks = 0;     ///< runs of matches that are in the same order in both without a gap
  std::int64_t words = 0;      ///< words of the caption
  std::int64_t reference = 0;  ///< words of the reference

  MeteorCounts& operator+=(const MeteorCounts& other);
  /// 10 P R / (R + 9 P) * (1 - 0.5 (chunks / matches)^3) with P = matches / words, R = matches / reference.
  /// Source: Banerjee and Lavie, METEOR, 2005.
  [[nodiscard]] double score() const;
};

/// The alignment that has the most matches and of those the fewest chunks. Where words are repeated so often that more
/// than 256 partial alignments, or more than 16 ways on from one of them, would have to be kept, the most promising
/// are; texts in which more than 4,096 pairs of a word and a repeated one stand against each other are aligned run by
/// run, the longest first that goes on from each word. Both may give more chunks than the best, and never fewer
/// matches.
/// Source: Denkowski and Lavie, Meteor 1.3, 2011, for the fewest chunks among the most matches; Banerjee and Lavie,
///         METEOR, 2005, whose score this is, take the fewest crosses.
[[nodiscard]] MeteorCounts align_words(const Ids& hypothesis, const Ids& reference);

/// The alignment with the reference that gives the highest score, the first of equal ones.
/// Throws: UsageError where there is no reference.
[[nodiscard]] MeteorCounts meteor_counts(const Ids& hypothesis, const std::vector<Ids>& references);

}  // namespace lockstep::captioning
