// SPDX-License-Identifier: Apache-2.0
#include "launch/program.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

enum class Kind { kProgram, kMissing, kHidden, kFolder, kNotExecutable };

Kind kind_of(const std::string& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) return errno == EACCES ? Kind::kHidden : Kind::kMissing;
  if (S_ISDIR(about.st_mode)) return Kind::kFolder;
  return ::access(path.c_str(), X_OK) == 0 ? Kind::kProgram : Kind::kNotExecutable;
}

// A file may have the permission and still not be executable, because of its file system or for this user.
[[noreturn]] void throw_not_executable(const std::string& name) {
  struct stat about {};
  struct statvfs disk {};
  const bool is_noexec = ::statvfs(name.c_str(), &disk) == 0 && (disk.f_flag & ST_NOEXEC) != 0;
  if (is_noexec) {
    throw UsageError(fmt::format("'{}' cannot be executed: its file system is mounted noexec", name),
                     "copy it to a file system without noexec; findmnt -T FILE shows the options");
  }
  const bool has_permission = ::stat(name.c_str(), &about) == 0 && (about.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH)) != 0;
  if (has_permission) {
    throw UsageError(fmt::format("this user may not execute '{}' (mode {:o})", name, about.st_mode & 07777U),
                     fmt::format("ask its owner for the permission, or chmod a+x {}", name));
  }
  throw UsageError(fmt::format("'{}' is not executable", name), fmt::format("chmod +x {}", name));
}

[[noreturn]] void throw_folder(const std::string& name) {
  throw UsageError(fmt::format("'{}' is a folder, not a program", name), "pass the program's path");
}

}  // namespace

std::string find_program(const std::string& name) {
  if (name.find('/') == std::string::npos) {
    std::istringstream folders(env::get("PATH").value_or("/usr/local/bin:/usr/bin:/bin"));
    for (std::string folder; std::getline(folders, folder, ':');) {
      const std::string path = (folder.empty() ? "." : folder) + "/" + name;
      if (kind_of(path) == Kind::kProgram) return path;
    }
    if (name.empty()) throw UsageError("the name of the program is empty", "pass the program's name or path");
    const Kind here = kind_of("./" + name);
    if (here == Kind::kFolder) throw_folder(name);
    const bool is_here = here == Kind::kProgram || here == Kind::kNotExecutable;
    throw UsageError(fmt::format("program '{}' was not found in PATH", name),
                     is_here ? fmt::format("write ./{}", name) : "check the name, or pass a path");
  }
  switch (kind_of(name)) {
    case Kind::kProgram:
      return name;
    case Kind::kMissing:
      throw UsageError(fmt::format("program '{}' does not exist", name), "check the path");
    case Kind::kHidden:
      throw UsageError(fmt::format("program '{}' cannot be read: this user may not enter one of its folders", name),
                       fmt::format("namei -l {} shows the permissions of each folder", name));
    case Kind::kFolder:
      throw_folder(name);
    case Kind::kNotExecutable:
      break;
  }
  throw_not_executable(name);
}

}  // namespace lockstep::launch
