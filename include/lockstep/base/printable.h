// SPDX-License-Identifier: Apache-2.0
// Words of others (a file's content, a peer's message, an address that a user typed) before a person sees them:
// nothing in them steers a terminal, and no URL shows a secret. Errors and log lines pass here by themselves.
#pragma once

#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep::text {

/// `words` with every control character but line feed and tab as "\x1b", also those of Unicode (C1, the marks that turn
/// the direction of writing), and with bytes that are no UTF-8 as "\xff".
[[nodiscard]] std::string printable(std::string_view words);

/// The same on one line: a line feed is "\n", a tab "\t".
[[nodiscard]] std::string printable_line(std::string_view words);

/// `words` with every URL in them shown as "https://***@host/path?token=***": without user, password and the values of
/// its query. "#sha256=..." stays, another fragment is "#***".
[[nodiscard]] std::string without_secrets(std::string_view words);

/// The words of a file, a peer or a command line as an error or a log line shows them:
/// printable(without_secrets(words)).
[[nodiscard]] std::string for_people(std::string_view words);

}  // namespace lockstep::text

#pragma GCC visibility pop
