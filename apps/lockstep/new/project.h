// SPDX-License-Identifier: Apache-2.0
// Creates the files of a new project from the templates beside this file. Pure functions except missing_packages().
#pragma once

#include <map>
#include <string>
#include <vector>

namespace lockstep::apps {

struct NewProject {
  std::string name;              ///< the project's and the program's name: a letter, then letters, digits, '_' and '-'
  std::string from = "trainer";  ///< one of project_kinds()
};

/// The kinds of projects: "loop", "trainer", "recipe".
[[nodiscard]] const std::vector<std::string>& project_kinds();

/// Throws: UsageError if the name cannot be that of a CMake target and a program, if CMake or Lockstep already uses it,
/// or if the kind is unknown.
void check_project(const NewProject& project);

/// The files' contents, by path in the project's folder ("src/main.cpp").
[[nodiscard]] std::map<std::string, std::string> project_files(const NewProject& project);

/// The commands to type next, in the project's folder. `prefix`: the folder of Lockstep's CMake package; empty:
/// unknown. CMake searches /usr and /usr/local itself and needs an option for any other prefix.
[[nodiscard]] std::vector<std::string> next_commands(const NewProject& project, const std::string& prefix = "");

/// Returns the Debian packages of the compiler, CMake and Ninja, except those found in the folders of `path` (a PATH).
[[nodiscard]] std::vector<std::string> missing_packages(const std::string& path);

/// The files in templates/, compiled in: contents by path ("trainer/src/main.cpp").
[[nodiscard]] std::map<std::string, std::string> project_templates();

}  // namespace lockstep::apps
