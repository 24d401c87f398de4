// SPDX-License-Identifier: Apache-2.0
// The files of a new project, from the templates beside this file. Pure except missing_packages().
#pragma once

#include <map>
#include <string>
#include <vector>

namespace lockstep::apps {

struct NewProject {
  std::string name;              ///< also the program's name: letters, digits, '_' and '-', first a letter
  std::string from = "trainer";  ///< one of project_kinds()
};

/// "loop", "trainer", "recipe".
[[nodiscard]] const std::vector<std::string>& project_kinds();

/// Throws: UsageError if the name cannot be a CMake target and a program, if CMake or Lockstep has it already, or if
/// there is no such kind.
void check_project(const NewProject& project);

/// The texts by path in the project's folder ("src/main.cpp").
[[nodiscard]] std::map<std::string, std::string> project_files(const NewProject& project);

/// The commands to type next, in the project's folder.
[[nodiscard]] std::vector<std::string> next_commands(const NewProject& project);

/// Returns the Debian packages of those among the compiler, CMake and Ninja that no folder of `path` (as in PATH) has.
[[nodiscard]] std::vector<std::string> missing_packages(const std::string& path);

/// The files in templates/, compiled in: texts by path ("trainer/src/main.cpp").
[[nodiscard]] std::map<std::string, std::string> project_templates();

}  // namespace lockstep::apps
