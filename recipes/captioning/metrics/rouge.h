// SPDX-License-Identifier: Apache-2.0
// ROUGE-L of one caption. No torch header.
#pragma once

#include <vector>

#include "captioning/metrics/ngram.h"

namespace lockstep::captioning {

/// F-measure with beta = 1.2 of the longest common subsequence; precision and recall are each the best of all
/// references, as in COCO's evaluation. A corpus has the mean of its captions.
/// Throws: UsageError where there is no reference. Source: Lin, ROUGE, 2004.
[[nodiscard]] double rouge_l(const Ids& hypothesis, const std::vector<Ids>& references);

}  // namespace lockstep::captioning
