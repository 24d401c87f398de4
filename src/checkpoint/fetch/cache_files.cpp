// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/fetch/cache_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOtherCache = "or set XDG_CACHE_HOME to a folder of your own";
constexpr const char* kRemoveIt = "remove it, and find out who put it there";
constexpr int kOpenTries = 100;  // another process may remove and create the file at the same time

std::string cause_of(int number) { return std::generic_category().message(number); }

bool is_trusted(uid_t owner) { return owner == ::geteuid() || owner == 0; }

/// Returns true if users other than the owner may write. A group whose ID equals the owner's is the owner's private
/// group.
bool others_may_write(const struct stat& status) {
  const bool own_group = status.st_gid == static_cast<gid_t>(status.st_uid);
  const mode_t others = own_group ? S_IWOTH : S_IWOTH | S_IWGRP;
  return (status.st_mode & others) != 0 && (status.st_mode & S_ISVTX) == 0;
}

void require_own_folder(const fs::path& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) {
    throw IoError(fmt::format("cannot use {}: {}", folder.string(), cause_of(errno)), kOtherCache);
  }
  if (!S_ISDIR(status.st_mode))
    throw IoError(fmt::format("cannot use {}: it is not a folder", folder.string()), kOtherCache);
  if (!is_trusted(status.st_uid)) {
    throw UsageError(fmt::format("the folder of fetched files {} belongs to user {}, but this process runs as user {}: "
                                 "the owner could replace the files",
                                 folder.string(), status.st_uid, ::geteuid()),
                     fmt::format("chown -R {} {}, {}", ::geteuid(), folder.string(), kOtherCache));
  }
  if (others_may_write(status)) {
    throw UsageError(
        fmt::format("others may write to the folder of fetched files {} (mode {:04o}) and could replace the files",
                    folder.string(), status.st_mode & 07777U),
        fmt::format("check its contents and run chmod -R go-w {}, {}", folder.string(), kOtherCache));
  }
}

void make_own_folder(const fs::path& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    throw IoError(fmt::format("cannot create folder {}: {}", folder.string(), cause_of(errno)),
                  "make it writable, or set XDG_CACHE_HOME to another folder");
  }
  require_own_folder(folder);
}

void require_own_file(const fs::path& path, const struct stat& status) {
  if (S_ISLNK(status.st_mode)) {
    throw DataError(fmt::format("{} is a symbolic link, but fetched files are regular files", path.string()),
                    kRemoveIt);
  }
  if (!S_ISREG(status.st_mode)) throw DataError(fmt::format("{} is not a regular file", path.string()), kRemoveIt);
  if (!is_trusted(status.st_uid)) {
    throw DataError(fmt::format("{} belongs to user {}, but this process runs as user {}", path.string(), status.st_uid,
                                ::geteuid()),
                    kRemoveIt);
  }
}

}  // namespace

void make_cache_folders(const fs::path& cache, const fs::path& folder) {
  const fs::path parent = fs::absolute(cache).lexically_normal().parent_path();
  if (!FileSystem::system().exists(cache)) FileSystem::system().make_folder(parent);
  make_own_folder(cache);
  make_own_folder(folder);
}

UniqueFd open_cache_file(const fs::path& path, int flags, const char* hint) {
  // With these flags open() neither follows a link nor waits for a pipe, and creates only a new file.
  const int all = flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  int error = 0;
  for (int i = 0; i < kOpenTries; ++i) {
    UniqueFd file(::open(path.c_str(), all));
    if (!file.valid() && errno == ENOENT) file = UniqueFd(::open(path.c_str(), all | O_CREAT | O_EXCL, 0644));
    error = errno;
    if (!file.valid() && (error == ENOENT || error == EEXIST)) continue;
    struct stat status {};
    if (!file.valid() && ::lstat(path.c_str(), &status) == 0) require_own_file(path, status);
    if (!file.valid()) break;
    if (::fstat(file.get(), &status) != 0) break;
    require_own_file(path, status);
    return file;
  }
  throw IoError(fmt::format("cannot open {}: {}", path.string(), cause_of(error)), hint);
}

bool has_cache_file(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return false;
  require_own_file(path, status);
  return true;
}

}  // namespace lockstep::checkpoint
