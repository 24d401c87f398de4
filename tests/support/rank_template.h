// SPDX-License-Identifier: Apache-2.0
// A process that has loaded libtorch (0.9 s of a core) and forks before any of its threads begins: the ranks of tests
// start from it in milliseconds. A test program starts itself as such a process; its main() calls serve_as_template().
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>

namespace lockstep::testing {

/// The test that a rank runs, and its surroundings.
struct RankStart {
  std::string test;                        ///< "Suite.Name"
  std::map<std::string, std::string> env;  ///< on top of this program's own
  std::string log;                         ///< stdout and stderr go there
};

/// For main(), before RUN_ALL_TESTS(). In a template process: serves until its program has ended, and returns the
/// test's name in each forked rank. Elsewhere: returns nothing, at once.
[[nodiscard]] std::optional<std::string> serve_as_template();

/// Starts a rank, a child of this process, from this program's template, which it starts if there is none. Returns -1
/// if there can be no template: main() has not called serve_as_template(), or `env` has variables that libraries read
/// when they are loaded.
[[nodiscard]] pid_t start_from_template(const RankStart& rank);

}  // namespace lockstep::testing
