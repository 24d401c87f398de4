// SPDX-License-Identifier: Apache-2.0
// The line of /proc/PID/stat, see proc(5).
#pragma once

#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep {

/// Returns the fields after the program's name, which may contain any character: first the state, one letter. Empty if
/// the line is incomplete.
[[nodiscard]] constexpr std::string_view fields_of_stat(std::string_view line) noexcept {
  const std::size_t name_end = line.rfind(") ");
  return name_end == std::string_view::npos ? std::string_view() : line.substr(name_end + 2);
}

/// Returns true for the state of a process that has ended. Its entry remains until its parent reaps it; a container's
/// first process may never do so.
[[nodiscard]] constexpr bool is_state_of_ended(char state) noexcept { return state == 'Z' || state == 'X'; }

}  // namespace lockstep

#pragma GCC visibility pop
