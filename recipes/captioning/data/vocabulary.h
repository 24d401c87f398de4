// SPDX-License-Identifier: Apache-2.0
// Which word has which id. No torch header.
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

/// Word ids, or what one caption is in them.
using Ids = std::vector<std::int64_t>;

/// What stands for every word that a vocabulary does not have.
inline constexpr std::string_view kUnknownWord = "UNK";

/// Words with the ids 1, 2, ...; 0 begins a sentence and ends it. Thread-safe: yes.
class Vocabulary {
 public:
  /// One word a line; the first has the id 1. Throws: DataError naming the file where it is missing or empty, or the
  /// line where it is blank, holds white space or no UTF-8, or has a word for the second time.
  [[nodiscard]] static Vocabulary from_file(const std::filesystem::path& path);
  /// The same of a text; `name` stands for it in messages.
  [[nodiscard]] static Vocabulary from_text(std::string_view lines, const std::string& name);
  /// The words of all captions (words_of) that occur at least `min_count` times: by falling count, then by their bytes.
  /// Where others are left out, kUnknownWord is the last. Throws: DataError where no word is left, or a caption is no
  /// UTF-8.
  [[nodiscard]] static Vocabulary of(const std::vector<CaptionedImage>& images, std::int64_t min_count);

  /// What from_text reads, each line with its end.
  [[nodiscard]] std::string to_text() const;
  /// Ids, the 0 included: words + 1.
  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(words_.size()); }
  /// "." for 0. Throws: UsageError where `id` is none.
  [[nodiscard]] const std::string& word(std::int64_t id) const;
  [[nodiscard]] bool has(std::string_view word) const { return ids_.contains(std::string(word)); }
  /// The id of a word; of an unknown one that of kUnknownWord, where there is such.
  [[nodiscard]] std::optional<std::int64_t> find(std::string_view word) const;
  /// Ids of words, no 0 at the end. Throws: DataError naming the word that has none.
  [[nodiscard]] Ids ids_of(const std::vector<std::string>& words) const;
  /// Words up to the first 0 or the `count`-th id, with blanks between them. Throws: UsageError where an id is none.
  [[nodiscard]] std::string text_of(const std::int64_t* ids, std::int64_t count) const;
  /// How another one differs, in words: "12 words against 14", "word 7 is 'cat' against 'dog'"; "" where it does not.
  [[nodiscard]] std::string difference(const Vocabulary& other) const;

 private:
  Vocabulary() = default;
  /// False where it is there already.
  bool add(std::string_view word);

  std::vector<std::string> words_{"."};  // by id
  std::unordered_map<std::string, std::int64_t> ids_;
};

}  // namespace lockstep::captioning
