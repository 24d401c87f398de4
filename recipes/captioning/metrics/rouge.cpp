// SPDX-License-Identifier: Apache-2.0
#include "captioning/metrics/rouge.h"

#include <algorithm>
#include <cstddef>

#include "lockstep/base/error.h"

namespace lockstep::captioning {
namespace {

constexpr double kBeta = 1.2;  // recall counts so many times as much as precision

std::size_t longest_common(const Ids& one, const Ids& other) {
  std::vector<std::size_t> lengths(other.size() + 1);  // for the words of `one` so far and the first i of `other`
  for (const std::int64_t word : one) {
    std::size_t diagonal = 0;
    for (std::size_t i = 0; i < other.size(); ++i) {
      const std::size_t above = lengths[i + 1];
      lengths[i + 1] = other[i] == word ? diagonal + 1 : std::max(above, lengths[i]);
      diagonal = above;
    }
  }
  return lengths.back();
}

}  // namespace

double rouge_l(const Ids& hypothesis, const std::vector<Ids>& references) {
  if (references.empty()) throw UsageError("ROUGE-L of a caption without a reference");
  double precision = 0;
  double recall = 0;
  for (const Ids& reference : references) {
    const auto common = static_cast<double>(longest_common(hypothesis, reference));
    if (common == 0) continue;
    precision = std::max(precision, common / static_cast<double>(hypothesis.size()));
    recall = std::max(recall, common / static_cast<double>(reference.size()));
  }
  if (precision == 0 || recall == 0) return 0;
  return (1 + kBeta * kBeta) * precision * recall / (recall + kBeta * kBeta * precision);
}

}  // namespace lockstep::captioning
