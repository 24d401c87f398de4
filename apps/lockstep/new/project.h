// SPDX-License-Identifier: Apache-2.0
// The files of a new project, from the templates beside this file. Pure, but for missing_packages().
#pragma once

#include <map>
#include <string>
#include <vector>

namespace lockstep::apps {

struct NewProject {
  std::string name;              ///< also the program's: letters, digits, '_' and '-', a letter first
  std::string from = "trainer";  ///< one of project_kinds()
};

/// "loop", "trainer", "recipe".
[[nodiscard]] const std::vector<std::string>& project_kinds();

/// Throws: UsageError where the name cannot be a CMake target and a program, or where CMake or Lockstep has it already;
/// where there is no such kind.
void check_project(const NewProject& project);

/// Texts by their paths in the project's folder ("src/main.cpp").
[[nodiscard]] std::map<std::string, std::string> project_files(const NewProject& project);

/// What to type next, in the project's folder.
[[nodiscard]] std::vector<std::string> next_commands(const NewProject& project);

/// Returns the Debian packages of the compiler, CMake and Ninja where no folder of `path` (as in PATH) has the program.
[[nodiscard]] std::vector<std::string> missing_packages(const std::string& path);

/// The files in templates/, compiled in: texts by path ("trainer/src/main.cpp").
[[nodiscard]] std::map<std::string, std::string> project_templates();

}  // namespace lockstep::apps
