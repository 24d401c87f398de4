// SPDX-License-Identifier: Apache-2.0
// Checks conditions that hold unless Lockstep has a bug. Release builds also check them: a run that continues in a
// wrong state costs more than a rank that ends. Use it only for cheap conditions; a mistake by a caller or a peer is an
// Error.
#pragma once

#include <fmt/format.h>

#include <string>

#pragma GCC visibility push(default)

namespace lockstep {

/// Prints the condition, its location and the state, writes them to the launcher's error file as an InternalError, and
/// ends the process with exit code 70 at once, without waiting for its threads. Thread-safe: yes.
[[noreturn]] void end_by_invariant(const char* condition, const char* file, int line,
                                   const std::string& state) noexcept;

}  // namespace lockstep

#pragma GCC visibility pop

/// Ends the process unless `condition` holds. The other arguments are the format and values of a message about the
/// state.
/// Example: LOCKSTEP_INVARIANT(!running_, "operation {} of {}", sequence, pending_.size());
#define LOCKSTEP_INVARIANT(condition, ...)           \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::lockstep::end_by_invariant(#condition, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)))
