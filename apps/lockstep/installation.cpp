// SPDX-License-Identifier: Apache-2.0
#include "lockstep/installation.h"

#include <fmt/format.h>
#include <unistd.h>

#include <system_error>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

// The path of `program` is <environment>/lib/python3.11/site-packages/lockstep/bin/lockstep. Debian's Python has
// dist-packages.
std::string python_of_environment(const fs::path& program) {
  for (fs::path folder = program.parent_path(); folder.has_relative_path(); folder = folder.parent_path()) {
    const fs::path packages = folder.filename();
    const std::string version = folder.parent_path().filename().string();
    if ((packages != "site-packages" && packages != "dist-packages") || !version.starts_with("python3")) continue;
    const fs::path programs = folder.parent_path().parent_path().parent_path() / "bin";
    for (const std::string& name : {version, std::string("python3")}) {
      if (::access((programs / name).c_str(), X_OK) == 0) return (programs / name).string();
    }
  }
  return "";
}

bool has_package(const fs::path& folder) {
  std::error_code problem;
  return fs::exists(folder / "cmake/Lockstep/LockstepConfig.cmake", problem);
}

// True if a CMake package is in a folder that find_package searches under a prefix: lib, lib64, share, and this
// machine's (lib/x86_64-linux-gnu).
bool is_prefix(const fs::path& prefix) {
  for (const char* folder : {"lib", "lib64", "share"}) {
    if (has_package(prefix / folder)) return true;
  }
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(prefix / "lib", problem)) {
    if (has_package(entry.path())) return true;
  }
  return false;
}

}  // namespace

fs::path this_program() { return fs::read_symlink("/proc/self/exe"); }

std::string python_for(const fs::path& program, const std::optional<std::string>& chosen) {
  if (chosen && !chosen->empty()) return *chosen;
  const std::string own = python_of_environment(program);
  return own.empty() ? "python3" : own;
}

fs::path cmake_folder_of(const fs::path& program) {
  fs::path prefix = program.parent_path().parent_path();
  if (is_prefix(prefix)) return prefix;
  throw ResourceError(fmt::format("there is no Lockstep CMake package next to {}", program.string()),
                      "install it: apt install ./liblockstep-dev_*.deb, or cmake --install; a project can also "
                      "add_subdirectory() the sources");
}

}  // namespace lockstep::apps
