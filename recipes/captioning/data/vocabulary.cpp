// SPDX-License-Identifier: Apache-2.0
#include "captioning/data/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "captioning/data/caption_files.h"
#include "captioning/metrics/tokens.h"
#include "lockstep/base/error.h"

namespace lockstep::captioning {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// Returns the problem with a line that should be a word; "" if there is none.
std::string word_problem(std::string_view word) {
  if (word.empty()) return "is blank";
  if (word.find_first_of(" \t\v\f\r") != std::string_view::npos) {
    return fmt::format("is '{}': more than one word", shown(word));
  }
  return "";
}

}  // namespace

bool Vocabulary::add(std::string_view word) {
  if (!ids_.emplace(word, size()).second) return false;
  words_.emplace_back(word);
  return true;
}

Vocabulary Vocabulary::from_file(const std::filesystem::path& path) {
  return from_text(file_text(path), path.string());
}

Vocabulary Vocabulary::from_text(std::string_view lines, const std::string& name) {
  Vocabulary vocabulary;
  if (lines.starts_with(kByteOrderMark)) lines.remove_prefix(kByteOrderMark.size());
  for (std::int64_t number = 1; !lines.empty(); ++number) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    std::string_view word = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (word.ends_with('\r')) word.remove_suffix(1);
    if (!is_utf8(word)) throw DataError(fmt::format("vocabulary {}: line {} is not UTF-8", name, number));
    std::string problem = word_problem(word);
    if (problem.empty() && !vocabulary.add(word)) {
      problem = fmt::format("is '{}', which is already line {}", shown(word), *vocabulary.find(word));
    }
    if (problem.empty()) continue;
    throw DataError(fmt::format("vocabulary {}: line {} {}", name, number, problem),
                    "a vocabulary has one word per line, and each word once");
  }
  if (vocabulary.size() == 1) throw DataError(fmt::format("vocabulary {} is empty", name), "write one word per line");
  return vocabulary;
}

Vocabulary Vocabulary::of(const std::vector<CaptionedImage>& images, std::int64_t min_count) {
  std::unordered_map<std::string, std::int64_t> counts;
  for (const CaptionedImage& image : images) {
    for (const std::string& caption : image.captions) {
      for (std::string& word : words_of(caption)) ++counts[std::move(word)];
    }
  }
  std::vector<std::pair<std::int64_t, std::string>> kept;
  for (const auto& [word, count] : counts) {
    if (count >= min_count) kept.emplace_back(-count, word);
  }
  if (kept.empty()) {
    throw DataError(fmt::format("no word occurs {} times in the captions of {} images", min_count, images.size()),
                    "lower the minimum word count");
  }
  std::sort(kept.begin(), kept.end());
  Vocabulary vocabulary;
  for (const auto& [count, word] : kept) (void)vocabulary.add(word);
  if (kept.size() < counts.size()) (void)vocabulary.add(kUnknownWord);
  return vocabulary;
}

std::string Vocabulary::to_text() const {
  std::string text;
  for (std::size_t id = 1; id < words_.size(); ++id) text += words_[id] + "\n";
  return text;
}

const std::string& Vocabulary::word(std::int64_t id) const {
  if (id < 0 || id >= size()) throw UsageError(fmt::format("word id {} is outside a vocabulary of {} ids", id, size()));
  return words_[static_cast<std::size_t>(id)];
}

std::optional<std::int64_t> Vocabulary::find(std::string_view word) const {
  const auto at = ids_.find(std::string(word));
  if (at != ids_.end()) return at->second;
  const auto unknown = ids_.find(std::string(kUnknownWord));
  if (unknown != ids_.end()) return unknown->second;
  return std::nullopt;
}

Ids Vocabulary::ids_of(const std::vector<std::string>& words) const {
  Ids ids;
  ids.reserve(words.size());
  for (const std::string& word : words) {
    const auto id = find(word);
    if (!id) {
      throw DataError(
          fmt::format("the word '{}' is not among the {} in the vocabulary", shown(word), size() - 1),
          fmt::format("add the word to the vocabulary, or add a last line {} for all such words", kUnknownWord));
    }
    ids.push_back(*id);
  }
  return ids;
}

std::string Vocabulary::text_of(const std::int64_t* ids, std::int64_t count) const {
  std::string text;
  for (std::int64_t i = 0; i < count && ids[i] != 0; ++i) {
    if (i > 0) text += ' ';
    text += word(ids[i]);
  }
  return text;
}

std::string Vocabulary::difference(const Vocabulary& other) const {
  const std::size_t both = std::min(words_.size(), other.words_.size());
  std::size_t id = 1;
  while (id < both && words_[id] == other.words_[id]) ++id;
  if (id == both && size() == other.size()) return "";
  const auto word = [id](const std::vector<std::string>& words) {
    return id < words.size() ? "'" + words[id] + "'" : std::string("none");
  };
  const std::string counts =
      size() == other.size() ? "" : fmt::format("{} words instead of {}: ", size() - 1, other.size() - 1);
  return fmt::format("{}word {} is {} instead of {}", counts, id, word(words_), word(other.words_));
}

}  // namespace lockstep::captioning
