// SPDX-License-Identifier: Apache-2.0
// The texts beside a checkpoint's states that programs read. They are written, and count as whole, only if they can be
// read.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::checkpoint {

inline constexpr std::size_t kMostTextBytes = 64U << 20U;

/// Returns true if the file's name promises a grammar: .yml, .yaml, .json.
[[nodiscard]] bool is_read_text(std::string_view file);

/// Returns the error that a reader of the text would find; "" if there is none, and for texts with other names.
[[nodiscard]] std::string text_problem(std::string_view file, std::string_view text);

}  // namespace lockstep::checkpoint
