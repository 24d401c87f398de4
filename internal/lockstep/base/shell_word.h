// SPDX-License-Identifier: Apache-2.0
// Quotes the arguments of commands for a shell.
#pragma once

#include <string>

#pragma GCC visibility push(default)

namespace lockstep::text {

/// Returns the argument, in quotes if a shell would otherwise change it: 'my runs/a'.
[[nodiscard]] std::string shell_word(const std::string& word);

}  // namespace lockstep::text

#pragma GCC visibility pop
