// SPDX-License-Identifier: Apache-2.0
#include "captioning/metrics/tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include "captioning/metrics/lower_case.h"
#include "lockstep/base/error.h"

namespace lockstep::captioning {
namespace {

constexpr std::array<std::string_view, 7> kClitics = {"n't", "'re", "'ve", "'ll", "'s", "'m", "'d"};
constexpr std::array<std::string_view, 6> kBracketNames = {"-lrb-", "-rrb-", "-lsb-", "-rsb-", "-lcb-", "-rcb-"};
constexpr std::size_t kShownBytes = 40;  // number of bytes quoted before the invalid byte in an error message
/// Typographic characters and their plain replacements.
constexpr std::array<std::pair<std::string_view, char>, 23> kTypeset = {
    {{"\u00A0", ' '}, {"\u2018", '\''}, {"\u2019", '\''}, {"\u201C", '"'}, {"\u201D", '"'}, {"\u201E", ' '},
     {"\u00AB", ' '}, {"\u00BB", ' '},  {"\u2026", ' '},  {"\u2013", ' '}, {"\u2014", ' '}, {"\u3000", ' '},
     {"\u3001", ' '}, {"\u3002", ' '},  {"\u300A", ' '},  {"\u300B", ' '}, {"\uFF01", ' '}, {"\uFF08", ' '},
     {"\uFF09", ' '}, {"\uFF0C", ' '},  {"\uFF1A", ' '},  {"\uFF1B", ' '}, {"\uFF1F", ' '}}};
constexpr std::string_view kAlwaysOut = ";?!\"`()[]{}";
constexpr std::string_view kOutBesideLetters = ".,:";

std::uint8_t byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<std::uint8_t>(text[at]) : 0;
}

/// The number of bytes of the character that begins at `at`; 0 if it is invalid.
std::size_t character_size(std::string_view text, std::size_t at) {
  const std::uint8_t first = byte_at(text, at);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::uint8_t second = byte_at(text, at + 1);
  // The second byte excludes overlong forms, surrogates and characters above U+10FFFF.
  const std::uint8_t least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const std::uint8_t most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (second < least || second > most) return 0;
  for (std::size_t i = 2; i < size; ++i) {
    if ((byte_at(text, at + i) & 0xC0) != 0x80) return 0;
  }
  return size;
}

/// The offset of the first byte that is not UTF-8; the size of the text if all bytes are.
std::size_t utf8_end(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t size = character_size(text, at);
    if (size == 0) break;
    at += size;
  }
  return at;
}

/// Lower-case UTF-8 text with plain spaces and quotes.
std::string plain_text(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view character = text.substr(at, character_size(text, at));
    at += character.size();
    if (character.size() == 1) {  // most characters
      const char letter = character.front();
      plain += letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 'a' - 'A') : letter;
      continue;
    }
    const auto typeset = std::ranges::find_if(kTypeset, [&](const auto& one) { return one.first == character; });
    if (typeset != kTypeset.end()) {
      plain += typeset->second;
    } else {
      plain += lower_case(character);
    }
  }
  return plain;
}

bool is_digit(std::uint8_t byte) { return byte >= '0' && byte <= '9'; }

bool ends_word(std::string_view text, std::size_t at) {
  const std::uint8_t byte = byte_at(text, at);
  if (byte <= 0x20 || byte == 0x7F || kAlwaysOut.find(text[at]) != std::string_view::npos) return true;
  if (byte == '-') return at > 0 && text[at - 1] == '-';  // the first '-' stays with the previous word and is trimmed
  if (kOutBesideLetters.find(text[at]) == std::string_view::npos) return false;
  return at == 0 || !is_digit(byte_at(text, at - 1)) || !is_digit(byte_at(text, at + 1));
}

bool is_edge(char letter) { return letter == '-' || letter == '\''; }

bool is_clitic(std::string_view piece) { return std::ranges::find(kClitics, piece) != kClitics.end(); }

/// Appends the words of a piece without white space, last word first.
void split_piece(std::string_view piece, std::vector<std::string>& words) {
  while (!piece.empty() && std::ranges::find(kBracketNames, piece) == kBracketNames.end()) {
    while (!piece.empty() && is_edge(piece.back())) piece.remove_suffix(1);
    while (!piece.empty() && is_edge(piece.front()) && !is_clitic(piece)) piece.remove_prefix(1);
    if (piece.empty()) return;
    const auto clitic = std::ranges::find_if(kClitics, [&](std::string_view one) { return piece.ends_with(one); });
    const std::string_view word = clitic == kClitics.end() ? piece : *clitic;
    words.emplace_back(word);
    piece.remove_suffix(word.size());
  }
}

}  // namespace

std::int64_t unspaced_letters(std::string_view word) noexcept {
  std::int64_t count = 0;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t size = std::max<std::size_t>(character_size(word, at), 1);
    const std::uint32_t letter = size != 3 ? 0
                                           : (byte_at(word, at) & 0xFU) << 12U | (byte_at(word, at + 1) & 0x3FU) << 6U |
                                                 (byte_at(word, at + 2) & 0x3FU);
    const bool han = (letter >= 0x3400 && letter <= 0x9FFF) || (letter >= 0xF900 && letter <= 0xFAFF);
    if (han || (letter >= 0x3041 && letter <= 0x309F)) ++count;
    at += size;
  }
  return count;
}

bool is_utf8(std::string_view text) noexcept { return utf8_end(text) == text.size(); }

std::string shown(std::string_view text, std::size_t most) {
  std::string clean;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = std::max<std::size_t>(character_size(text, at), 1);
    if (at + size > most) return clean + "...";
    const std::uint8_t first = byte_at(text, at);
    const bool control = first < 0x20 || first == 0x7F || (first == 0xC2 && byte_at(text, at + 1) < 0xA0);
    const bool good = !control && character_size(text, at) > 0;
    clean += good ? text.substr(at, size) : std::string_view("?");
    at += size;
  }
  return clean;
}

std::vector<std::string> words_of(std::string_view caption) {
  if (const std::size_t end = utf8_end(caption); end < caption.size()) {
    const std::size_t from = end > kShownBytes ? end - kShownBytes : 0;
    throw DataError(fmt::format("a caption is not UTF-8: byte {:#04x} at {} of {}, after \"{}\"", byte_at(caption, end),
                                end, caption.size(), shown(caption.substr(from, end - from))),
                    "convert the caption file to UTF-8");
  }
  const std::string text = plain_text(caption);
  std::vector<std::string> words;
  std::vector<std::string> backwards;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && !ends_word(text, end)) ++end;
    split_piece(std::string_view(text).substr(at, end - at), backwards);
    words.insert(words.end(), std::make_move_iterator(backwards.rbegin()), std::make_move_iterator(backwards.rend()));
    backwards.clear();
    at = end + 1;
  }
  return words;
}

}  // namespace lockstep::captioning
