// SPDX-License-Identifier: Apache-2.0
// A caption as words: the same for the vocabulary, for training and for scores. No torch header.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::captioning {

/// RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. Thread-safe: yes.
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

/// Foreign text for a message: at most `most` bytes of it, then "..." where there are more; control characters and
/// bytes that are no UTF-8 as "?". Thread-safe: yes.
[[nodiscard]] std::string shown(std::string_view text, std::size_t most = 40);

/// The words of a caption, in lower case (A-Z only; other bytes stay as they are).
///
/// Curly quotes are read as straight ones (U+2018 and U+2019 as ', U+201C and U+201D as ") and a space that does not
/// break (U+00A0) as a space. Words end at white space and at . , : ; ? ! " ` ( ) [ ] { } and --, which are left out,
/// but for one of . , : between two digits ("3.5", "1,000"). Hyphens and apostrophes stay inside a word ("t-shirt",
/// "o'clock") and go at its ends. 's 'm 'd 're 've 'll and n't are words of their own ("dog's" gives "dog" and "'s").
/// What Penn Treebank writes for brackets (-LRB- and the like) is left out. The words joined by spaces give the same
/// words again.
/// Thread-safe: yes. Throws: DataError where it is no UTF-8.
/// Source: what COCO's evaluation does to captions (Chen et al., Microsoft COCO Captions, 2015, section 3.1), with
///         fewer of the treebank's rules for English.
[[nodiscard]] std::vector<std::string> words_of(std::string_view caption);

}  // namespace lockstep::captioning
