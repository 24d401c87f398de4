// SPDX-License-Identifier: Apache-2.0
// Finds what is installed with the command: its CMake package, and the Python environment into which pip installed it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::apps {

/// The executable of the running command.
[[nodiscard]] std::filesystem::path this_program();

/// The Python that runs a .py file: `chosen` ($PYTHON_EXEC, as with torchrun); otherwise the Python of the environment
/// whose site-packages contain `program`; otherwise "python3" from PATH.
[[nodiscard]] std::string python_for(const std::filesystem::path& program, const std::optional<std::string>& chosen);

/// The folder for CMAKE_PREFIX_PATH that lets find_package(Lockstep) find the package installed with `program`.
/// Throws: ResourceError if there is no CMake package.
[[nodiscard]] std::filesystem::path cmake_folder_of(const std::filesystem::path& program);

}  // namespace lockstep::apps
