// SPDX-License-Identifier: Apache-2.0
// METEOR without word lists: only equal words match. Its scores are lower than METEOR scores that use stems, synonyms
// and paraphrases, and are not comparable with them. No torch header.
#pragma once

#include <cstdint>
#include <vector>

#include "captioning/metrics/ngram.h"

namespace lockstep::captioning {

/// The counts of an alignment of a caption with a reference; the counts of a corpus are sums over its captions.
struct MeteorCounts {
  std::int64_t matches = 0;    ///< words in both, each used once
  std::int64_t chunks = 0;     ///< runs of matches in the same order in both, without gaps
  std::int64_t words = 0;      ///< words of the caption
  std::int64_t reference = 0;  ///< words of the reference

  MeteorCounts& operator+=(const MeteorCounts& other);
  /// 10 P R / (R + 9 P) * (1 - 0.5 (chunks / matches)^3) with P = matches / words, R = matches / reference.
  /// Source: Banerjee and Lavie, METEOR, 2005.
  [[nodiscard]] double score() const;
};

/// The alignment with the most matches and, among those, the fewest chunks. If words are repeated so often that more
/// than 256 partial alignments, or more than 16 extensions of one of them, would have to be kept, only the most
/// promising ones are kept. Captions with more than 4,096 pairs of equal words are aligned run by run, with the longest
/// run from each word. Both limits can yield more chunks than the best alignment, but never fewer matches.
/// Source: Denkowski and Lavie, Meteor 1.3, 2011, for the fewest chunks among the most matches; Banerjee and Lavie,
///         METEOR, 2005, for the score, although that paper takes the fewest crossings.
[[nodiscard]] MeteorCounts align_words(const Ids& hypothesis, const Ids& reference);

/// The alignment with the reference that gives the highest score, the first one in case of a tie.
/// Throws: UsageError if there is no reference.
[[nodiscard]] MeteorCounts meteor_counts(const Ids& hypothesis, const std::vector<Ids>& references);

}  // namespace lockstep::captioning
