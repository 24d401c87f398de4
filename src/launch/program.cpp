// SPDX-License-Identifier: Apache-2.0
#include "launch/program.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sstream>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

enum class Kind { kProgram, kMissing, kFolder, kNotExecutable };

Kind kind_of(const std::string& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) return Kind::kMissing;
  if (S_ISDIR(about.st_mode)) return Kind::kFolder;
  return ::access(path.c_str(), X_OK) == 0 ? Kind::kProgram : Kind::kNotExecutable;
}

}  // namespace

std::string find_program(const std::string& name) {
  if (name.find('/') == std::string::npos) {
    std::istringstream folders(env::get("PATH").value_or("/usr/local/bin:/usr/bin:/bin"));
    for (std::string folder; std::getline(folders, folder, ':');) {
      const std::string path = (folder.empty() ? "." : folder) + "/" + name;
      if (kind_of(path) == Kind::kProgram) return path;
    }
    const bool is_here = kind_of("./" + name) != Kind::kMissing;
    throw UsageError(fmt::format("program '{}' was not found in PATH", name),
                     is_here ? fmt::format("write ./{}", name) : "check the name, or pass a path");
  }
  switch (kind_of(name)) {
    case Kind::kProgram:
      return name;
    case Kind::kMissing:
      throw UsageError(fmt::format("program '{}' does not exist", name), "check the path");
    case Kind::kFolder:
      throw UsageError(fmt::format("'{}' is a folder, not a program", name), "pass the program's path");
    case Kind::kNotExecutable:
      break;
  }
  throw UsageError(fmt::format("'{}' is not executable", name), fmt::format("chmod +x {}", name));
}

}  // namespace lockstep::launch
