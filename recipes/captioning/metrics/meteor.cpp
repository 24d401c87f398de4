// SPDX-License-Identifier: Apache-2.0
// Finds the alignment from left to right through the caption, keeping the fewest chunks for each set of reference words
// taken. Only repeated words leave a choice, so there are few sets; if there are too many, captions are aligned one run
// of words at a time.
#include "captioning/metrics/meteor.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::captioning {
namespace {

constexpr std::size_t kMostStates = 256;
constexpr std::size_t kMostWays = 16;  // extensions of a state by one word, not counting the one that continues its run
constexpr std::size_t kMostPairs = 4096;  // pairs of equal words in caption and reference
constexpr std::ptrdiff_t kNowhere = -2;   // a position that no reference word follows
constexpr std::int64_t kNoWord = std::numeric_limits<std::int64_t>::min();

/// The positions of repeated words that are taken in the reference, and the position that the caption's last word took.
using Place = std::pair<std::vector<bool>, std::ptrdiff_t>;
using Chunks = std::map<Place, std::int64_t>;

/// One word of the caption: its positions in the reference, and its possible matches.
struct Word {
  std::vector<std::ptrdiff_t> places;
  std::vector<std::size_t> tried;  // indices into `places`, in the order in which they are tried
  std::size_t first = 0;           // index of its first position among the positions of all repeated words
  std::int64_t matches = 0;        // number of its matches
  std::int64_t left = 0;           // number of its occurrences in the rest of the caption
  bool repeated = false;           // true if it is repeated in reference or caption
};

void keep_fewest(Chunks& states, Place place, std::int64_t chunks) {
  const auto [at, fresh] = states.try_emplace(std::move(place), chunks);
  if (!fresh) at->second = std::min(at->second, chunks);
}

/// Among states that took the same words, keeps those with the fewest chunks: a different last word saves at most one
/// chunk later, and the dropped states have at least one more. Then keeps the kMostStates states with the fewest
/// chunks.
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

/// Extends all states by a word without a choice: it has no match (kNowhere), or occurs once in both captions.
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

/// Extends `states` by the next word of the caption, which occurs `word.left` more times after it, in every possible
/// way; if there are too many, only in the first few ways and in the way that continues a run.
Chunks read_word(const Chunks& states, const Word& word) {
  Chunks next;
  for (const auto& [place, chunks] : states) {
    const auto& [taken, last] = place;
    std::int64_t used = 0;
    for (std::size_t i = 0; i < word.places.size(); ++i) used += taken[word.first + i] ? 1 : 0;
    if (used + word.left >= word.matches) keep_fewest(next, {taken, kNowhere}, chunks);
    if (used == word.matches) continue;
    std::size_t ways = 0;
    for (const std::size_t i : word.tried) {
      const bool continues = word.places[i] == last + 1;
      if (taken[word.first + i] || (!continues && ways == kMostWays)) continue;
      ways += continues ? 0 : 1;
      std::vector<bool> more = taken;
      more[word.first + i] = true;
      keep_fewest(next, {std::move(more), word.places[i]}, chunks + (continues ? 0 : 1));
    }
  }
  prune(next);
  return next;
}

/// The order in which the positions of `word` are tried: first the positions that `next` follows in the reference.
std::vector<std::size_t> tried_places(const Word& word, const Ids& reference, std::int64_t next) {
  std::vector<std::size_t> order(word.places.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_partition(order.begin(), order.end(), [&](std::size_t i) {
    const auto after = static_cast<std::size_t>(word.places[i]) + 1;
    return after < reference.size() && reference[after] == next;
  });
  return order;
}

using Words = std::map<std::int64_t, Word>;

/// The number of chunks of the best alignment among the states that were kept.
std::int64_t fewest_chunks(const Ids& hypothesis, const Ids& reference, Words& words, std::size_t repeated) {
  Chunks states{{{std::vector<bool>(repeated), kNowhere}, 0}};
  for (std::size_t at = 0; at < hypothesis.size(); ++at) {
    Word& word = words[hypothesis[at]];
    --word.left;
    if (word.repeated) {
      word.tried = tried_places(word, reference, at + 1 < hypothesis.size() ? hypothesis[at + 1] : kNoWord);
      states = read_word(states, word);
    } else {
      states = pass_word(states, word.places.empty() ? kNowhere : word.places.front());
    }
  }
  const auto chunks = [](const auto& one, const auto& other) { return one.second < other.second; };
  return std::ranges::min_element(states, chunks)->second;
}

/// Like fewest_chunks(), but faster: from left to right, always with the longest run. Every word takes a free position
/// as long as there is one, so the number of matches is maximal.
std::int64_t chunks_of_runs(const Ids& hypothesis, const Ids& reference, const Words& words) {
  std::vector<bool> taken(reference.size());
  std::int64_t chunks = 0;
  for (std::size_t at = 0; at < hypothesis.size();) {
    std::size_t best = 0;
    std::size_t longest = 0;
    for (const std::ptrdiff_t place : words.at(hypothesis[at]).places) {
      const auto from = static_cast<std::size_t>(place);
      std::size_t length = 0;
      while (at + length < hypothesis.size() && from + length < reference.size() && !taken[from + length] &&
             reference[from + length] == hypothesis[at + length]) {
        ++length;
      }
      if (length > longest) std::tie(best, longest) = std::pair{from, length};
      if (longest == hypothesis.size() - at) break;
    }
    std::fill_n(taken.begin() + static_cast<std::ptrdiff_t>(best), longest, true);
    chunks += longest > 0 ? 1 : 0;
    at += std::max<std::size_t>(longest, 1);
  }
  return chunks;
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
  Words words;
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
  counts.chunks = hypothesis.size() * repeated > kMostPairs ? chunks_of_runs(hypothesis, reference, words)
                                                            : fewest_chunks(hypothesis, reference, words, repeated);
  return counts;
}

MeteorCounts meteor_counts(const Ids& hypothesis, const std::vector<Ids>& references) {
  if (references.empty()) throw UsageError("cannot compute METEOR of a caption without a reference");
  MeteorCounts best = align_words(hypothesis, references.front());
  for (std::size_t r = 1; r < references.size(); ++r) {
    const MeteorCounts one = align_words(hypothesis, references[r]);
    if (one.score() > best.score()) best = one;
  }
  return best;
}

}  // namespace lockstep::captioning
