// SPDX-License-Identifier: Apache-2.0
#include "captioning/cider.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"

namespace lockstep::captioning {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "LSCIDF01";
constexpr std::size_t kHeader = 32;        // bytes
constexpr std::size_t kMostLocal = 65000;  // words of one image's references and a caption, numbered in 16 bits
constexpr std::int64_t kTabledWeights = 1 << 16;
constexpr int kTabledLengths = 64;

std::uint64_t fnv1a(std::string_view bytes) {
  std::uint64_t value = 14695981039346656037ULL;
  for (const char byte : bytes) value = (value ^ static_cast<std::uint8_t>(byte)) * 1099511628211ULL;
  return value;
}

void append_u64(std::string& bytes, std::uint64_t value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::uint64_t u64_at(std::string_view bytes, std::size_t at) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

/// Calls `take(n, first id)` for each n-gram, shorter ones first.
template <class Take>
void each_ngram(const std::int64_t* ids, std::int64_t count, const Take& take) {
  for (int n = 1; n <= kLongestNgram; ++n) {
    for (std::int64_t i = 0; i + n <= count; ++i) take(n, ids + i);
  }
}

std::int64_t bigrams(std::int64_t words) { return std::max<std::int64_t>(words - 1, 0); }

std::int64_t largest_id(const std::vector<std::vector<Ids>>& references_by_image) {
  std::int64_t largest = 0;
  for (const auto& references : references_by_image) {
    for (const Ids& ids : references) {
      check_ids(ids.data(), static_cast<std::int64_t>(ids.size()));
      for (const std::int64_t id : ids) largest = std::max(largest, id);
    }
  }
  return largest;
}

/// An n-gram of local numbers with how often it occurs. Local numbers are dense and small, so that keys have 64 bits
/// whatever the vocabulary.
struct LocalNgram {
  std::uint64_t key = 0;
  const std::int64_t* ids = nullptr;
  int n = 0;
  std::int64_t count = 1;
};

/// The n-grams of `numbers` (local) and `ids` (the same words), each once, by rising key; shorter ones have smaller
/// keys.
void collect_ngrams(const Ids& numbers, const std::int64_t* ids, std::vector<LocalNgram>& ngrams) {
  ngrams.clear();
  const auto count = static_cast<std::int64_t>(numbers.size());
  each_ngram(numbers.data(), count, [&](int n, const std::int64_t* first) {
    NgramKey key;
    (void)pack_ngram(first, n, false, key);
    ngrams.push_back({.key = key.low, .ids = ids + (first - numbers.data()), .n = n});
  });
  std::ranges::sort(ngrams, {}, &LocalNgram::key);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < ngrams.size(); ++i) {
    if (kept > 0 && ngrams[kept - 1].key == ngrams[i].key) {
      ++ngrams[kept - 1].count;
    } else {
      ngrams[kept++] = ngrams[i];
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
    throw UsageError(fmt::format("an image's captions have {} different words; CIDEr takes {}", words, kMostLocal));
  }
}

/// The place of a word that is there.
std::int64_t place_of(const Ids& words, std::int64_t id) { return std::ranges::lower_bound(words, id) - words.begin(); }

/// What a score needs on its way; kept by each thread, so that scoring allocates nothing.
struct Scratch {
  Ids numbers;
  std::vector<LocalNgram> ngrams;
  Ids strangers;                // words of the caption that no reference has
  std::vector<double> cosines;  // by order and reference
};

/// Local numbers: the place in `words`, and for the words that are not there those after them.
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

/// Vectors of all references over the n-grams that any of them has.
struct CiderD::Prepared {
  Ids words;                          // that occur, rising; the place is the local number
  std::vector<std::uint64_t> keys;    // of n-grams of local numbers, rising
  std::vector<double> squares;        // of each n-gram's weight
  std::vector<float> counts;          // by n-gram, then reference
  std::vector<double> norms;          // by order, then reference
  std::vector<std::int64_t> lengths;  // bigrams of each reference

  [[nodiscard]] std::size_t references() const noexcept { return lengths.size(); }
};

DocumentFrequencies DocumentFrequencies::of(const std::vector<std::vector<Ids>>& references_by_image) {
  if (references_by_image.empty()) throw UsageError("document frequencies of no image");
  const bool wide = largest_id(references_by_image) > kLargestShortId;
  NgramTable table(wide);
  std::vector<NgramKey> keys;
  for (const auto& references : references_by_image) {
    keys.clear();
    for (const Ids& ids : references) {
      each_ngram(ids.data(), static_cast<std::int64_t>(ids.size()),
                 [&](int n, const std::int64_t* first) { (void)pack_ngram(first, n, wide, keys.emplace_back()); });
    }
    std::ranges::sort(keys);
    const auto rest = std::ranges::unique(keys);
    keys.erase(rest.begin(), rest.end());
    for (const NgramKey& key : keys) table.add(key);
  }
  return {static_cast<std::int64_t>(references_by_image.size()), std::move(table)};
}

void DocumentFrequencies::save(const fs::path& path) const {
  std::string bytes(kMagic);
  append_u64(bytes, table_.wide() ? 4 : 2);
  append_u64(bytes, static_cast<std::uint64_t>(images_));
  append_u64(bytes, static_cast<std::uint64_t>(table_.size()));
  bytes += table_.bytes();
  append_u64(bytes, fnv1a(bytes));
  write_file_atomically(FileSystem::system(), path, bytes);
}

DocumentFrequencies DocumentFrequencies::from_file(const fs::path& path) {
  const std::string bytes = FileSystem::system().read(path);
  const auto fail = [&](const std::string& what) {
    return DataError(fmt::format("{}: {}", path.string(), what),
                     "remove it: document frequencies are then counted and written again");
  };
  const std::string_view view = bytes;
  if (!view.starts_with(kMagic)) throw fail("this is no file of document frequencies");
  if (view.size() < kHeader + sizeof(std::uint64_t)) throw fail(fmt::format("it ends after {} bytes", view.size()));
  const std::size_t end = view.size() - sizeof(std::uint64_t);
  if (u64_at(view, end) != fnv1a(view.substr(0, end))) throw fail("it is torn or was changed: its check sum is wrong");
  const std::uint64_t id_bytes = u64_at(view, 8);
  const std::uint64_t images = u64_at(view, 16);
  if (id_bytes != 2 && id_bytes != 4) throw fail(fmt::format("ids of {} bytes; 2 or 4 can be", id_bytes));
  if (images < 1 || images > 0xFFFFFFFF) throw fail(fmt::format("frequencies of {} images", images));
  try {
    NgramTable table =
        NgramTable::from_bytes(view.substr(kHeader, end - kHeader), id_bytes == 4, static_cast<std::uint32_t>(images));
    if (static_cast<std::uint64_t>(table.size()) != u64_at(view, 24)) {
      throw fail(fmt::format("{} n-grams, and its header says {}", table.size(), u64_at(view, 24)));
    }
    return {static_cast<std::int64_t>(images), std::move(table)};
  } catch (const DataError& error) {
    if (!error.hint().empty()) throw;
    throw fail(error.message());
  }
}

CiderD::CiderD(std::shared_ptr<const DocumentFrequencies> frequencies, const CiderOptions& options)
    : frequencies_(std::move(frequencies)), options_(options) {
  if (frequencies_ == nullptr) throw UsageError("CIDEr needs document frequencies");
  if (!(options.sigma > 0) || !(options.scale > 0)) {
    throw UsageError(
        fmt::format("CIDEr with sigma {} and scale {}; both have to be above 0", options.sigma, options.scale));
  }
  const std::int64_t known = std::min(frequencies_->images() + 1, kTabledWeights);
  for (std::int64_t frequency = 0; frequency < known; ++frequency) {
    weights_.push_back(weight_of(frequencies_->images(), frequency));
  }
  for (int difference = 0; difference < kTabledLengths; ++difference) {
    penalties_.push_back(penalty_of(difference, options_));
  }
}

double CiderD::weight(const std::int64_t* ids, int n) const noexcept {
  NgramKey key;
  const NgramTable& table = frequencies_->table();
  const std::uint32_t frequency = pack_ngram(ids, n, table.wide(), key) ? table.find(key) : 0;
  return frequency < weights_.size() ? weights_[frequency] : weight_of(frequencies_->images(), frequency);
}

double CiderD::penalty(std::int64_t difference) const noexcept {
  const auto words = static_cast<std::size_t>(std::abs(difference));
  return words < penalties_.size() ? penalties_[words] : penalty_of(difference, options_);
}

CiderD::Reference CiderD::prepare(const std::vector<Ids>& references) const {
  if (references.empty()) throw UsageError("CIDEr of an image without a reference");
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
  std::map<std::uint64_t, std::pair<LocalNgram, std::vector<float>>> vectors;
  std::vector<LocalNgram> ngrams;
  for (std::size_t r = 0; r < width; ++r) {
    Ids numbers;
    for (const std::int64_t id : references[r]) numbers.push_back(place_of(prepared->words, id));
    collect_ngrams(numbers, references[r].data(), ngrams);
    for (const LocalNgram& ngram : ngrams) {
      auto& [known, counts] = vectors[ngram.key];
      known = ngram;
      counts.resize(width);
      counts[r] = static_cast<float>(ngram.count);
    }
  }
  prepared->norms.resize(kLongestNgram * width);
  for (const auto& [key, vector] : vectors) {
    const auto& [ngram, counts] = vector;
    const double weight_here = weight(ngram.ids, ngram.n);
    prepared->keys.push_back(key);
    prepared->squares.push_back(weight_here * weight_here);
    prepared->counts.insert(prepared->counts.end(), counts.begin(), counts.end());
    double* norms = prepared->norms.data() + static_cast<std::size_t>(ngram.n - 1) * width;
    for (std::size_t r = 0; r < width; ++r) norms[r] += prepared->squares.back() * counts[r] * counts[r];
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
  std::array<double, kLongestNgram> norms{};
  std::size_t at = 0;
  for (const LocalNgram& ngram : scratch.ngrams) {
    while (at < known.keys.size() && known.keys[at] < ngram.key) ++at;
    const auto order = static_cast<std::size_t>(ngram.n - 1);
    const auto here = static_cast<double>(ngram.count);
    if (at == known.keys.size() || known.keys[at] != ngram.key) {
      const double weighted = here * weight(ngram.ids, ngram.n);
      norms[order] += weighted * weighted;
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
