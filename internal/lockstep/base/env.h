// SPDX-License-Identifier: Apache-2.0
// The only place that reads the environment.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::env {

/// Returns the variable's value; none if it is unset or empty.
[[nodiscard]] std::optional<std::string> get(const char* name);

/// Returns every variable, as "NAME=value".
[[nodiscard]] std::vector<std::string> all();

/// Returns the variable as an integer; none if it is unset.
/// Throws: UsageError naming the variable and its value if the value is not an integer.
[[nodiscard]] std::optional<std::int64_t> get_int(const char* name);

/// Returns the time limit of every collective: LOCKSTEP_TIMEOUT, else NCCL_TIMEOUT, in seconds (fractions are valid);
/// the default is 300 s.
/// Throws: UsageError if the variable is not a positive number.
[[nodiscard]] std::chrono::milliseconds collective_timeout();
/// Returns the name of the variable that sets this limit, for messages; "LOCKSTEP_TIMEOUT" if neither is set.
[[nodiscard]] const char* timeout_variable();

}  // namespace lockstep::env

#pragma GCC visibility pop
