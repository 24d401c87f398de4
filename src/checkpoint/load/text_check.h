// SPDX-License-Identifier: Apache-2.0
// Checks a checkpoint's text files that programs parse. Saves write them, and verification accepts them, only if they
// parse.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::checkpoint {

inline constexpr std::size_t kMostTextBytes = 64U << 20U;

/// Returns true if programs parse the file, judging by its extension: .yml, .yaml, .json.
[[nodiscard]] bool is_read_text(std::string_view file);

/// Returns the error from parsing the text; "" if it parses, and for files with other extensions.
[[nodiscard]] std::string text_problem(std::string_view file, std::string_view text);

}  // namespace lockstep::checkpoint
