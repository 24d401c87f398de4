// SPDX-License-Identifier: Apache-2.0
// Splits a caption into words, the same way for the vocabulary, training and scores. No torch header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::captioning {

/// True if the text is UTF-8 by RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. Thread-safe: yes.
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

/// Prepares untrusted text for a message: at most `most` bytes of it, then "..." if there are more. Control characters
/// and bytes that are not UTF-8 become "?". Thread-safe: yes.
[[nodiscard]] std::string shown(std::string_view text, std::size_t most = 40);

/// The number of Chinese characters and hiragana in a word; many mean a sentence without spaces. Thread-safe: yes.
[[nodiscard]] std::int64_t unspaced_letters(std::string_view word) noexcept;

/// The words of a caption, in lower case (lower_case(): Latin, Greek and Cyrillic letters).
///
/// Curly quotes become straight ones (U+2018 and U+2019 become ', U+201C and U+201D become "). A non-breaking space, an
/// ideographic space, dashes, an ellipsis, low and angle quotes, and the punctuation of Chinese (U+3002, U+FF0C, U+3001
/// and others) become a space. Words end at white space and at . , : ; ? ! " ` ( ) [ ] { } and --, which are dropped,
/// except . , or : between two digits ("3.5", "1,000"). Hyphens and apostrophes stay inside a word ("t-shirt",
/// "o'clock") and are dropped at a word's ends. 's 'm 'd 're 've 'll and n't are separate words ("dog's" gives "dog"
/// and "'s"). The Penn Treebank's names for brackets (-LRB- and the like) are dropped. Joining the words with spaces
/// and splitting them again gives the same words.
/// Thread-safe: yes. Throws: DataError if the text is not UTF-8.
/// Source: the tokenizer of COCO's evaluation (Chen et al., Microsoft COCO Captions, 2015, section 3.1), with fewer of
///         the Treebank's rules for English.
[[nodiscard]] std::vector<std::string> words_of(std::string_view caption);

}  // namespace lockstep::captioning
