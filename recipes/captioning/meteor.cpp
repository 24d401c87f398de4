// SPDX-License-Identifier: Apache-2.0
// The alignment: from left to right through the caption, with the fewest chunks for each set of reference words that
// are taken. Only repeated words leave a choice, so that few sets come up.
#include "captioning/meteor.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::captioning {
namespace {

constexpr std::size_t kMostStates = 4096;
constexpr std::ptrdiff_t kNowhere = -2;  // no reference word comes after it

/// Which words of the reference are taken, and which the last word of the caption took.
using Place = std::pair<std::vector<bool>, std::ptrdiff_t>;
using Chunks = std::map<Place, std::int64_t>;

/// How many matches a word has in all, and how many of it the rest of the caption still holds.
struct Quota {
  std::int64_t matches = 0;
  std::int64_t left = 0;
};

void keep_fewest(Chunks& states, Place place, std::int64_t chunks) {
  const auto [at, fresh] = states.try_emplace(std::move(place), chunks);
  if (!fresh) at->second = std::min(at->second, chunks);
}

void prune(Chunks& states) {
  if (states.size() <= kMostStates) return;
  std::vector<std::pair<std::int64_t, Place>> ordered;
  for (auto& [place, chunks] : states) ordered.emplace_back(chunks, place);
  std::ranges::sort(ordered);
  states.clear();
  for (std::size_t i = 0; i < kMostStates; ++i) states.emplace(std::move(ordered[i].second), ordered[i].first);
}

/// All ways on from `states` with the next word of the caption, of which `quota.left` more come after it.
Chunks read_word(const Chunks& states, std::int64_t word, const Ids& reference, const Quota& quota) {
  Chunks next;
  for (const auto& [place, chunks] : states) {
    const auto& [taken, last] = place;
    std::int64_t used = 0;
    for (std::size_t i = 0; i < reference.size(); ++i) used += reference[i] == word && taken[i] ? 1 : 0;
    if (used + quota.left >= quota.matches) keep_fewest(next, {taken, kNowhere}, chunks);
    for (std::size_t i = 0; used < quota.matches && i < reference.size(); ++i) {
      if (reference[i] != word || taken[i]) continue;
      std::vector<bool> more = taken;
      more[i] = true;
      const auto at = static_cast<std::ptrdiff_t>(i);
      keep_fewest(next, {std::move(more), at}, chunks + (at == last + 1 ? 0 : 1));
    }
  }
  prune(next);
  return next;
}

}  // namespace

MeteorCounts& MeteorCounts::operator+=(const MeteorCounts& other) {
  matches += other.matches;
  chunks += other.chunks;
  words += other.words;
  reference += other.reference;
  return *this;
}

double MeteorCounts::score() const {
  if (matches == 0) return 0;
  const double precision = static_cast<double>(matches) / static_cast<double>(words);
  const double recall = static_cast<double>(matches) / static_cast<double>(reference);
  const double scattered = static_cast<double>(chunks) / static_cast<double>(matches);
  return 10 * precision * recall / (recall + 9 * precision) * (1 - 0.5 * scattered * scattered * scattered);
}

MeteorCounts align_words(const Ids& hypothesis, const Ids& reference) {
  MeteorCounts counts{.words = std::ssize(hypothesis), .reference = std::ssize(reference)};
  std::map<std::int64_t, Quota> quotas;
  for (const std::int64_t word : hypothesis) ++quotas[word].left;
  for (auto& [word, quota] : quotas) {
    quota.matches = std::min<std::int64_t>(quota.left, std::ranges::count(reference, word));
    counts.matches += quota.matches;
  }
  Chunks states{{{std::vector<bool>(reference.size()), kNowhere}, 0}};
  for (const std::int64_t word : hypothesis) {
    Quota& quota = quotas[word];
    --quota.left;
    states = read_word(states, word, reference, quota);
  }
  for (const auto& [place, chunks] : states) counts.chunks = std::max(counts.chunks, chunks);
  for (const auto& [place, chunks] : states) counts.chunks = std::min(counts.chunks, chunks);
  return counts;
}

MeteorCounts meteor_counts(const Ids& hypothesis, const std::vector<Ids>& references) {
  if (references.empty()) throw UsageError("METEOR of a caption without a reference");
  MeteorCounts best = align_words(hypothesis, references.front());
  for (std::size_t r = 1; r < references.size(); ++r) {
    const MeteorCounts one = align_words(hypothesis, references[r]);
    if (one.score() > best.score()) best = one;
  }
  return best;
}

}  // namespace lockstep::captioning
