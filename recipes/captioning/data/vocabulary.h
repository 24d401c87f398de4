// SPDX-License-Identifier: Apache-2.0
// The words of captions and their ids. No torch header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "captioning/data/captions.h"

namespace lockstep::captioning {

/// Word ids, such as the words of a caption.
using Ids = std::vector<std::int64_t>;

/// The word that replaces all words missing from a vocabulary.
inline constexpr std::string_view kUnknownWord = "UNK";

/// Words with the ids 1, 2, ...; 0 begins and ends a sentence. Thread-safe: yes.
class Vocabulary {
 public:
  /// Reads one word per line; the first has the id 1. Throws: DataError naming the file if it is missing or empty, or
  /// the line if it is blank, contains white space, is not UTF-8, or repeats a word.
  [[nodiscard]] static Vocabulary from_file(const std::filesystem::path& path);
  /// Like from_file(), but from a string; `name` identifies it in messages.
  [[nodiscard]] static Vocabulary from_text(std::string_view lines, const std::string& name);
  /// The words of all captions (words_of()) that occur at least `min_count` times, by descending count, then by their
  /// bytes. If any word is dropped, kUnknownWord comes last. Throws: DataError if no word is left, or a caption is not
  /// UTF-8.
  [[nodiscard]] static Vocabulary of(const std::vector<CaptionedImage>& images, std::int64_t min_count);

  /// The text for from_text, each line with its newline.
  [[nodiscard]] std::string to_text() const;
  /// The number of ids, including 0: words + 1.
  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(words_.size()); }
  /// The word of an id; "." for 0. Throws: UsageError if `id` is not valid.
  [[nodiscard]] const std::string& word(std::int64_t id) const;
  [[nodiscard]] bool has(std::string_view word) const { return ids_.contains(std::string(word)); }
  /// The id of a word; for an unknown word, the id of kUnknownWord if the vocabulary has it.
  [[nodiscard]] std::optional<std::int64_t> find(std::string_view word) const;
  /// The ids of words, without a final 0. Throws: DataError naming a word without an id.
  [[nodiscard]] Ids ids_of(const std::vector<std::string>& words) const;
  /// The words up to the first 0 or the `count`-th id, separated by spaces. Throws: UsageError if an id is not valid.
  [[nodiscard]] std::string text_of(const std::int64_t* ids, std::int64_t count) const;
  /// How this differs from `other`: "word 7 is 'cat' instead of 'dog'"; "" if they are equal.
  [[nodiscard]] std::string difference(const Vocabulary& other) const;

 private:
  Vocabulary() = default;
  /// Adds a word. Returns false if it exists already.
  bool add(std::string_view word);

  std::vector<std::string> words_{"."};  // by id
  std::unordered_map<std::string, std::int64_t> ids_;
};

}  // namespace lockstep::captioning
