// SPDX-License-Identifier: Apache-2.0
// Finds the program that the workers run, so that a wrong name causes a single error, before anything starts.
#pragma once

#include <string>

namespace lockstep::launch {

/// Searches like a shell: a name with '/' is a path, any other name is looked up in PATH. Throws: UsageError naming the
/// problem.
[[nodiscard]] std::string find_program(const std::string& name);

}  // namespace lockstep::launch
