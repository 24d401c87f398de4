// SPDX-License-Identifier: Apache-2.0
// Cleans external text (a file's content, a peer's message, an address that a user typed) before a person sees it, so
// that it cannot control a terminal and no URL shows a secret. Errors and log lines are cleaned automatically.
#pragma once

#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep::text {

/// Returns `words` with escapes: control characters except line feed and tab become "\x1b" and the like, including
/// Unicode's (C1, and the marks that reverse the text direction); bytes that are not UTF-8 become "\xff".
[[nodiscard]] std::string printable(std::string_view words);

/// The same for a single line: a line feed becomes "\n", a tab "\t".
[[nodiscard]] std::string printable_line(std::string_view words);

/// Returns `words` with every URL shown as "https://***@host/path?token=***": without user, password and the values of
/// its query. "#sha256=..." is kept; any other fragment becomes "#***".
[[nodiscard]] std::string without_secrets(std::string_view words);

/// Returns printable(without_secrets(words)), for text from a file, a peer or a command line in an error or a log line.
[[nodiscard]] std::string for_people(std::string_view words);

/// Returns the argument, in quotes if a shell would otherwise change it: 'my runs/a'.
[[nodiscard]] std::string shell_word(const std::string& word);

}  // namespace lockstep::text

#pragma GCC visibility pop
