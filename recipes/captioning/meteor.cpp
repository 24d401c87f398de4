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

constexpr std::size_t kMostStates = 256;
constexpr std::ptrdiff_t kNowhere = -2;  // no reference word comes after it

/// Which places of repeated words are taken in the reference, and which the last word of the caption took.
using Place = std::pair<std::vector<bool>, std::ptrdiff_t>;
using Chunks = std::map<Place, std::int64_t>;

/// One word of the caption: where the reference has it, and how it may be matched.
struct Word {
  std::vector<std::ptrdiff_t> places;
  std::size_t first = 0;     // of its places among those of all repeated words
  std::int64_t matches = 0;  // in all
  std::int64_t left = 0;     // of it in the rest of the caption
  bool repeated = false;     // there or here
};

void keep_fewest(Chunks& states, Place place, std::int64_t chunks) {
  const auto [at, fresh] = states.try_emplace(std::move(place), chunks);
  if (!fresh) at->second = std::min(at->second, chunks);
}

/// Of the states that took the same words those with the fewest chunks: going on from another's last word saves one
/// chunk at most, which is one more than they have. Then the kMostStates with the fewest of all.
void prune(Chunks& states) {
  if (states.size() == 1) return;
  std::map<std::vector<bool>, std::int64_t> fewest_of;
  for (const auto& [place, chunks] : states) {
    const auto [at, fresh] = fewest_of.try_emplace(place.first, chunks);
    if (!fresh) at->second = std::min(at->second, chunks);
  }
  std::erase_if(states, [&](const auto& one) { return one.second > fewest_of.at(one.first.first); });
  if (states.size() <= kMostStates) return;
  std::vector<std::pair<std::int64_t, Place>> ordered;
  for (const auto& [place, chunks] : states) ordered.emplace_back(chunks, place);
  std::ranges::sort(ordered);
  states.clear();
  for (std::size_t i = 0; i < kMostStates; ++i) states.emplace(std::move(ordered[i].second), ordered[i].first);
}

/// The same with a word that leaves no choice: it has no match (kNowhere), or both have it once.
Chunks pass_word(Chunks& states, std::ptrdiff_t at) {
  Chunks next;
  while (!states.empty()) {
    auto node = states.extract(states.begin());
    auto& [taken, last] = node.key();
    const bool more = at != kNowhere && at != last + 1;
    keep_fewest(next, {std::move(taken), at}, node.mapped() + (more ? 1 : 0));
  }
  return next;
}

/// All ways on from `states` with the next word of the caption, of which `word.left` more come after it.
Chunks read_word(const Chunks& states, const Word& word) {
  Chunks next;
  for (const auto& [place, chunks] : states) {
    const auto& [taken, last] = place;
    std::int64_t used = 0;
    for (std::size_t i = 0; i < word.places.size(); ++i) used += taken[word.first + i] ? 1 : 0;
    if (used + word.left >= word.matches) keep_fewest(next, {taken, kNowhere}, chunks);
    for (std::size_t i = 0; used < word.matches && i < word.places.size(); ++i) {
      if (taken[word.first + i]) continue;
      std::vector<bool> more = taken;
      more[word.first + i] = true;
      keep_fewest(next, {std::move(more), word.places[i]}, chunks + (word.places[i] == last + 1 ? 0 : 1));
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
  std::map<std::int64_t, Word> words;
  for (const std::int64_t id : hypothesis) ++words[id].left;
  for (std::ptrdiff_t i = 0; i < std::ssize(reference); ++i) {
    const auto at = words.find(reference[static_cast<std::size_t>(i)]);
    if (at != words.end()) at->second.places.push_back(i);
  }
  std::size_t repeated = 0;
  for (auto& [id, word] : words) {
    word.matches = std::min<std::int64_t>(word.left, std::ssize(word.places));
    word.repeated = word.matches > 0 && (word.left > 1 || word.places.size() > 1);
    word.first = repeated;
    repeated += word.repeated ? word.places.size() : 0;
    counts.matches += word.matches;
  }
  Chunks states{{{std::vector<bool>(repeated), kNowhere}, 0}};
  for (const std::int64_t id : hypothesis) {
    Word& word = words[id];
    --word.left;
    states = word.repeated ? read_word(states, word)
                           : pass_word(states, word.places.empty() ? kNowhere : word.places.front());
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
