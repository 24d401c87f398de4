// SPDX-License-Identifier: Apache-2.0
// What must hold wherever Lockstep's code is right. It is checked in release builds, too: a wrong state that goes on
// costs more than a rank that ends. Cheap conditions only; what a caller or another process may get wrong is an Error.
#pragma once

#include <fmt/format.h>

#include <string>

#pragma GCC visibility push(default)

namespace lockstep {

/// Says what did not hold, where, and the state; leaves it in the launcher's error file as an InternalError; and ends
/// the process with exit code 70 at once, whatever its threads do. Thread-safe: yes.
[[noreturn]] void end_by_invariant(const char* condition, const char* file, int line,
                                   const std::string& state) noexcept;

}  // namespace lockstep

#pragma GCC visibility pop

/// Ends the process where `condition` does not hold. The rest are the format and arguments of the state's words.
/// Example: LOCKSTEP_INVARIANT(!running_, "operation {} of {}", sequence, pending_.size());
#define LOCKSTEP_INVARIANT(condition, ...)           \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::lockstep::end_by_invariant(#condition, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)))
