// SPDX-License-Identifier: Apache-2.0
// A process that has loaded libtorch (0.9 s of CPU time) and forks before any of its threads starts: the ranks of tests
// start from it in milliseconds. A test program re-executes itself as this process; its main() calls
// serve_as_template().
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>

namespace lockstep::testing {

/// The test that a rank runs, its environment and its log.
struct RankStart {
  std::string test;                        ///< "Suite.Name"
  std::map<std::string, std::string> env;  ///< variables added to this program's own
  std::string log;                         ///< file for stdout and stderr
};

/// For main(), before RUN_ALL_TESTS(). In a template process: serves until its program has ended, and returns the
/// test's name in each forked rank. In any other process: returns nullopt immediately.
[[nodiscard]] std::optional<std::string> serve_as_template();

/// Starts a rank, as a child of this process, from this program's template process, which it starts if needed. Returns
/// -1 if there can be no template: main() has not called serve_as_template(), or `env` has variables that libraries
/// read when they are loaded.
[[nodiscard]] pid_t start_from_template(const RankStart& rank);

}  // namespace lockstep::testing
