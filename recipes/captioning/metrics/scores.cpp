// SPDX-License-Identifier: Apache-2.0
#include "captioning/metrics/scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "captioning/metrics/meteor.h"
#include "captioning/metrics/overlap_scores.h"
#include "lockstep/base/error.h"

namespace lockstep::captioning {
namespace {

template <class Caption>
void sort_by_index(std::vector<Caption>& captions) {
  std::ranges::sort(captions, {}, &Caption::index);
  const auto twice = std::ranges::adjacent_find(captions, {}, &Caption::index);
  if (twice != captions.end()) throw UsageError(fmt::format("image {} is scored twice", twice->index));
}

std::shared_ptr<const DocumentFrequencies> own_frequencies(const std::vector<ScoredCaption>& captions) {
  std::vector<std::vector<Ids>> references;
  for (const ScoredCaption& caption : captions) references.push_back(caption.references);
  return std::make_shared<const DocumentFrequencies>(DocumentFrequencies::of(references));
}

/// Numbers words in the order of their first use.
class WordNumbers {
 public:
  [[nodiscard]] Ids ids_of(const std::vector<std::string>& words) {
    Ids ids;
    for (const std::string& word : words) {
      ids.push_back(ids_.try_emplace(word, static_cast<std::int64_t>(ids_.size())).first->second);
    }
    return ids;
  }

 private:
  std::unordered_map<std::string, std::int64_t> ids_;
};

CaptionScores score_sorted(const std::vector<ScoredCaption>& captions,
                           std::shared_ptr<const DocumentFrequencies> frequencies) {
  CaptionScores scores;
  if (captions.empty()) return scores;
  if (frequencies == nullptr) frequencies = own_frequencies(captions);
  const CiderD cider_d(frequencies);
  const CiderD cider(frequencies, {.plain = true});
  Bleu bleu;
  MeteorCounts meteor;
  for (const auto& [index, hypothesis, references] : captions) {
    if (references.empty()) throw UsageError(fmt::format("image {} has no reference to score against", index));
    bleu.add(hypothesis, references);
    meteor += meteor_counts(hypothesis, references);
    scores.rouge_l += rouge_l(hypothesis, references);
    const CiderD::Reference reference = cider.prepare(references);
    scores.cider += cider.score(hypothesis, reference);
    scores.cider_d_each.push_back(cider_d.score(hypothesis, reference));
    scores.cider_d += scores.cider_d_each.back();
  }
  scores.bleu = bleu.scores();
  scores.meteor_exact = meteor.score();
  const auto count = static_cast<double>(captions.size());
  for (double* mean : {&scores.rouge_l, &scores.cider, &scores.cider_d}) *mean /= count;
  return scores;
}

}  // namespace

CaptionScores score_captions(std::vector<ScoredCaption> captions,
                             std::shared_ptr<const DocumentFrequencies> frequencies) {
  sort_by_index(captions);
  return score_sorted(captions, std::move(frequencies));
}

CaptionScores score_captions(std::vector<WordedCaption> captions) {
  sort_by_index(captions);
  WordNumbers numbers;
  std::vector<ScoredCaption> numbered;
  for (const WordedCaption& caption : captions) {
    ScoredCaption one{.index = caption.index, .hypothesis = numbers.ids_of(caption.hypothesis), .references = {}};
    for (const auto& reference : caption.references) one.references.push_back(numbers.ids_of(reference));
    numbered.push_back(std::move(one));
  }
  return score_sorted(numbered, nullptr);
}

}  // namespace lockstep::captioning
