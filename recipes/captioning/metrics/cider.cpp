// SPDX-License-Identifier: Apache-2.0
#include "captioning/metrics/cider.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <span>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::captioning {
namespace {

constexpr std::size_t kMostLocal = 65000;  // words of one image's references plus a caption; local numbers have 16 bits
constexpr int kLocalBits = 16;
constexpr std::uint64_t kLocalMask = 0xFFFF;
constexpr std::ptrdiff_t kFew = 64;
constexpr std::int64_t kTabledWeights = 1 << 16;
constexpr int kTabledLengths = 64;

std::int64_t bigrams(std::int64_t words) { return std::max<std::int64_t>(words - 1, 0); }

/// An n-gram of local numbers, with its count. Local numbers are dense and small, so keys fit in 64 bits for any
/// vocabulary.
struct LocalNgram {
  std::uint64_t key = 0;
  const std::int64_t* ids = nullptr;  // its words
  std::int32_t n = 0;
  std::int32_t count = 1;
};

bool has_smaller_key(const LocalNgram& one, const LocalNgram& other) { return one.key < other.key; }

/// Sorts the few n-grams of one order in a caption. Faster than std::sort for so few.
void insertion_sort(LocalNgram* begin, LocalNgram* end) {
  for (LocalNgram* next = begin; next != end; ++next) {
    const LocalNgram one = *next;
    LocalNgram* at = next;
    for (; at != begin && one.key < (at - 1)->key; --at) *at = *(at - 1);
    *at = one;
  }
}

/// Collects the n-grams of `numbers` (local numbers) and `ids` (the same words), each once, by ascending key; shorter
/// n-grams have smaller keys.
void collect_ngrams(const Ids& numbers, const std::int64_t* ids, std::vector<LocalNgram>& ngrams) {
  ngrams.clear();
  std::uint64_t mask = 0;
  for (std::int32_t n = 1; n <= kLongestNgram; ++n) {
    mask = mask << kLocalBits | kLocalMask;
    const std::size_t first = ngrams.size();
    std::uint64_t key = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      key = (key << kLocalBits | static_cast<std::uint64_t>(numbers[i] + 1)) & mask;
      const std::ptrdiff_t begin = static_cast<std::ptrdiff_t>(i) + 1 - n;
      if (begin >= 0) ngrams.push_back({.key = key, .ids = ids + begin, .n = n});
    }
    LocalNgram* const group = ngrams.data() + first;
    LocalNgram* const end = ngrams.data() + ngrams.size();
    if (end - group <= kFew) {
      insertion_sort(group, end);
    } else {
      std::sort(group, end, has_smaller_key);
    }
  }
  std::size_t kept = 0;
  for (const LocalNgram& one : ngrams) {
    if (kept > 0 && ngrams[kept - 1].key == one.key) {
      ++ngrams[kept - 1].count;
    } else {
      ngrams[kept++] = one;
    }
  }
  ngrams.resize(kept);
}

double weight_of(std::int64_t images, std::int64_t frequency) {
  return std::log(static_cast<double>(images)) - std::log(static_cast<double>(std::max<std::int64_t>(frequency, 1)));
}

double penalty_of(std::int64_t difference, const CiderOptions& options) {
  if (options.plain) return 1;
  const double words = static_cast<double>(difference) / options.sigma;
  return std::exp(-words * words / 2);
}

void check_words(std::size_t words) {
  if (words > kMostLocal) {
    throw UsageError(
        fmt::format("an image's captions have {} different words; CIDEr supports at most {}", words, kMostLocal));
  }
}

/// The index of a word, or of the first larger one.
std::int64_t place_of(const Ids& words, std::int64_t id) { return std::ranges::lower_bound(words, id) - words.begin(); }

/// An n-gram whose number of images is to be looked up. All are prefetched before the first is read.
struct Wanted {
  NgramKey key;
  bool known = false;  // true if the table has room for its ids
  std::int32_t n = 0;
  std::int32_t count = 0;
};

void want(const LocalNgram& ngram, const NgramTable& table, std::vector<Wanted>& all) {
  Wanted& one = all.emplace_back();
  one.n = ngram.n;
  one.count = ngram.count;
  one.known = pack_ngram(ngram.ids, ngram.n, table.wide(), one.key);
  if (one.known) table.prefetch(one.key);
}

std::uint32_t found(const Wanted& one, const NgramTable& table) { return one.known ? table.find(one.key) : 0; }

struct OfReference {
  LocalNgram ngram;
  std::size_t reference = 0;
};

/// Scratch buffers for scoring; each thread keeps its own, so that scoring allocates nothing.
struct Scratch {
  Ids numbers;
  std::vector<LocalNgram> ngrams;
  std::vector<Wanted> wanted;
  Ids strangers;                // words of the caption that do not occur in a reference
  std::vector<double> cosines;  // cosines by order and reference
};

/// Assigns local numbers: a word in `words` gets its index, other words get the numbers after those.
void number_words(std::span<const std::int64_t> ids, const Ids& words, Scratch& scratch) {
  scratch.numbers.clear();
  scratch.strangers.clear();
  for (const std::int64_t id : ids) {
    const std::int64_t place = place_of(words, id);
    if (place < std::ssize(words) && words[static_cast<std::size_t>(place)] == id) {
      scratch.numbers.push_back(place);
      continue;
    }
    const auto stranger = std::ranges::find(scratch.strangers, id);
    scratch.numbers.push_back(std::ssize(words) + (stranger - scratch.strangers.begin()));
    if (stranger == scratch.strangers.end()) scratch.strangers.push_back(id);
  }
  check_words(words.size() + scratch.strangers.size());
}

}  // namespace

/// The vectors of all references, over the n-grams that occur in any of them.
struct CiderD::Prepared {
  Ids words;                          // words that occur, ascending; the index is the local number
  std::vector<std::uint64_t> keys;    // n-grams of local numbers, ascending
  std::vector<double> squares;        // squares of each n-gram's weight
  std::vector<float> counts;          // counts by n-gram, then reference
  std::vector<double> norms;          // norms by order, then reference
  std::vector<std::int64_t> lengths;  // number of bigrams of each reference

  [[nodiscard]] std::size_t references() const noexcept { return lengths.size(); }
};

CiderD::CiderD(std::shared_ptr<const DocumentFrequencies> frequencies, const CiderOptions& options)
    : frequencies_(std::move(frequencies)), options_(options) {
  if (frequencies_ == nullptr) throw UsageError("CIDEr needs document frequencies");
  if (!(options.sigma > 0) || !(options.scale > 0)) {
    throw UsageError(
        fmt::format("CIDEr with sigma {} and scale {}; both must be above 0", options.sigma, options.scale));
  }
  const std::int64_t known = std::min(frequencies_->images() + 1, kTabledWeights);
  for (std::int64_t frequency = 0; frequency < known; ++frequency) {
    weights_.push_back(weight_of(frequencies_->images(), frequency));
  }
  for (int difference = 0; difference < kTabledLengths; ++difference) {
    penalties_.push_back(penalty_of(difference, options_));
  }
}

double CiderD::weight(std::uint32_t frequency) const noexcept {
  return frequency < weights_.size() ? weights_[frequency] : weight_of(frequencies_->images(), frequency);
}

double CiderD::penalty(std::int64_t difference) const noexcept {
  const auto words = static_cast<std::size_t>(std::abs(difference));
  return words < penalties_.size() ? penalties_[words] : penalty_of(difference, options_);
}

CiderD::Reference CiderD::prepare(const std::vector<Ids>& references) const {
  if (references.empty()) throw UsageError("cannot compute CIDEr of an image without a reference");
  auto prepared = std::make_shared<Prepared>();
  for (const Ids& ids : references) {
    check_ids(ids.data(), static_cast<std::int64_t>(ids.size()));
    prepared->words.insert(prepared->words.end(), ids.begin(), ids.end());
    prepared->lengths.push_back(bigrams(static_cast<std::int64_t>(ids.size())));
  }
  std::ranges::sort(prepared->words);
  const auto rest = std::ranges::unique(prepared->words);
  prepared->words.erase(rest.begin(), rest.end());
  check_words(prepared->words.size());

  const std::size_t width = references.size();
  std::vector<OfReference> all;
  Scratch scratch;
  for (std::size_t r = 0; r < width; ++r) {
    number_words(references[r], prepared->words, scratch);
    collect_ngrams(scratch.numbers, references[r].data(), scratch.ngrams);
    for (const LocalNgram& ngram : scratch.ngrams) all.push_back({ngram, r});
  }
  std::ranges::sort(all, has_smaller_key, &OfReference::ngram);
  const NgramTable& table = frequencies_->table();
  for (const OfReference& one : all) {
    if (!prepared->keys.empty() && prepared->keys.back() == one.ngram.key) continue;
    prepared->keys.push_back(one.ngram.key);
    want(one.ngram, table, scratch.wanted);
  }
  for (const Wanted& one : scratch.wanted) prepared->squares.push_back(std::pow(weight(found(one, table)), 2));
  prepared->counts.resize(prepared->keys.size() * width);
  prepared->norms.resize(kLongestNgram * width);
  for (std::size_t at = 0; const auto& [ngram, r] : all) {
    if (prepared->keys[at] != ngram.key) ++at;
    prepared->counts[at * width + r] = static_cast<float>(ngram.count);
    prepared->norms[static_cast<std::size_t>(ngram.n - 1) * width + r] +=
        prepared->squares[at] * static_cast<double>(ngram.count) * static_cast<double>(ngram.count);
  }
  for (double& norm : prepared->norms) norm = std::sqrt(norm);
  return prepared;
}

double CiderD::score(const std::int64_t* ids, std::int64_t count, const Reference& reference) const {
  check_ids(ids, count);
  thread_local Scratch scratch;
  const Prepared& known = *reference;
  number_words({ids, static_cast<std::size_t>(count)}, known.words, scratch);
  collect_ngrams(scratch.numbers, ids, scratch.ngrams);

  const std::size_t width = known.references();
  scratch.cosines.assign(kLongestNgram * width, 0);
  scratch.wanted.clear();
  const NgramTable& table = frequencies_->table();
  std::array<double, kLongestNgram> norms{};
  std::size_t at = 0;
  for (const LocalNgram& ngram : scratch.ngrams) {
    while (at < known.keys.size() && known.keys[at] < ngram.key) ++at;
    const auto order = static_cast<std::size_t>(ngram.n - 1);
    const auto here = static_cast<double>(ngram.count);
    if (at == known.keys.size() || known.keys[at] != ngram.key) {
      want(ngram, table, scratch.wanted);
      continue;
    }
    const double square = known.squares[at];
    norms[order] += square * here * here;
    const float* counts = known.counts.data() + at * width;
    double* cosines = scratch.cosines.data() + order * width;
    for (std::size_t r = 0; r < width; ++r) {
      const double there = counts[r];
      cosines[r] += square * there * (options_.plain ? here : std::min(here, there));
    }
  }
  for (const Wanted& one : scratch.wanted) {
    const double weighted = one.count * weight(found(one, table));
    norms[static_cast<std::size_t>(one.n - 1)] += weighted * weighted;
  }
  double sum = 0;
  for (std::size_t r = 0; r < width; ++r) {
    double of_reference = 0;
    for (std::size_t n = 0; n < kLongestNgram; ++n) {
      const double norm = std::sqrt(norms[n]) * known.norms[n * width + r];
      if (norm > 0) of_reference += scratch.cosines[n * width + r] / norm;
    }
    sum += of_reference * penalty(bigrams(count) - known.lengths[r]);
  }
  return options_.scale * sum / (kLongestNgram * static_cast<double>(width));
}

}  // namespace lockstep::captioning
