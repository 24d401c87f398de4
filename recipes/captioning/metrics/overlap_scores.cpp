// SPDX-License-Identifier: Apache-2.0
#include "captioning/metrics/overlap_scores.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <span>

#include "lockstep/base/error.h"

namespace lockstep::captioning {
namespace {

constexpr double kTiny = 1e-15;
constexpr double kSmall = 1e-9;

using NgramCounts = std::map<std::vector<std::int64_t>, std::int64_t>;

NgramCounts count_ngrams(const Ids& ids, std::size_t n) {
  NgramCounts counts;
  for (std::size_t i = 0; i + n <= ids.size(); ++i) {
    ++counts[Ids(ids.begin() + static_cast<std::ptrdiff_t>(i), ids.begin() + static_cast<std::ptrdiff_t>(i + n))];
  }
  return counts;
}

std::int64_t closest_length(std::int64_t length, const std::vector<Ids>& references) {
  std::int64_t best = std::ssize(references.front());
  for (const Ids& reference : references) {
    const std::int64_t one = std::ssize(reference);
    const std::int64_t nearer = std::abs(best - length) - std::abs(one - length);
    if (nearer > 0 || (nearer == 0 && one < best)) best = one;
  }
  return best;
}

}  // namespace

void Bleu::add(const Ids& hypothesis, const std::vector<Ids>& references) {
  if (references.empty()) throw UsageError("cannot compute BLEU of a caption without a reference");
  for (std::size_t n = 1; n <= kLongestNgram; ++n) {
    NgramCounts most;
    for (const Ids& reference : references) {
      for (const auto& [ngram, count] : count_ngrams(reference, n)) most[ngram] = std::max(most[ngram], count);
    }
    for (const auto& [ngram, count] : count_ngrams(hypothesis, n)) {
      const auto there = most.find(ngram);
      if (there != most.end()) matched_[n - 1] += std::min(count, there->second);
      there_[n - 1] += count;
    }
  }
  length_ += std::ssize(hypothesis);
  reference_length_ += closest_length(std::ssize(hypothesis), references);
}

std::array<double, kLongestNgram> Bleu::scores() const {
  std::array<double, kLongestNgram> scores{};
  if (reference_length_ == 0 && length_ == 0) return scores;
  const double ratio = (static_cast<double>(length_) + kTiny) / (static_cast<double>(reference_length_) + kSmall);
  const double brevity = ratio < 1 ? std::exp(1 - 1 / ratio) : 1;
  double product = 1;
  for (std::size_t n = 0; n < kLongestNgram; ++n) {
    product *= (static_cast<double>(matched_[n]) + kTiny) / (static_cast<double>(there_[n]) + kSmall);
    scores[n] = brevity * std::pow(product, 1.0 / static_cast<double>(n + 1));
  }
  return scores;
}

namespace {

constexpr double kBeta = 1.2;  // weight of recall relative to precision

std::size_t longest_common(const Ids& one, const Ids& other) {
  std::vector<std::size_t> lengths(other.size() + 1);  // [i]: for the words so far and the first i words of `other`
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
  if (references.empty()) throw UsageError("cannot compute ROUGE-L of a caption without a reference");
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
