// SPDX-License-Identifier: Apache-2.0
// What lies around the installed command: its CMake package, and the Python of the environment that pip put it into.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::apps {

/// The file of the running command.
[[nodiscard]] std::filesystem::path this_program();

/// The Python that runs a .py file: `chosen` ($PYTHON_EXEC, as with torchrun); else that of the environment in whose
/// site-packages `program` lies; else "python3", which PATH finds.
[[nodiscard]] std::string python_for(const std::filesystem::path& program, const std::optional<std::string>& chosen);

/// The folder that CMAKE_PREFIX_PATH wants, so that find_package(Lockstep) finds what `program` was installed with.
/// Throws: ResourceError if no CMake package lies there.
[[nodiscard]] std::filesystem::path cmake_folder_of(const std::filesystem::path& program);

}  // namespace lockstep::apps
