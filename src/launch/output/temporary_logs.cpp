// SPDX-License-Identifier: Apache-2.0
#include "launch/output/temporary_logs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/resources.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "lockstep-logs-";
constexpr std::size_t kLetters = 6;  // chosen by mkdtemp

UniqueFd open_folder(const fs::path& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/// Returns true if `path` is still the folder opened as `fd`.
bool is_still_there(const fs::path& path, int fd) {
  struct stat named {};
  struct stat opened {};
  return ::lstat(path.c_str(), &named) == 0 && ::fstat(fd, &opened) == 0 && named.st_dev == opened.st_dev &&
         named.st_ino == opened.st_ino;
}

/// Locks the folder. Returns false, so that the folder is kept, if another process has locked it or the file system has
/// no file locks.
bool lock(int fd) { return ::flock(fd, LOCK_EX | LOCK_NB) == 0; }

bool is_ours(const std::string& name) {
  if (name.size() != kPrefix.size() + kLetters || !name.starts_with(kPrefix)) return false;
  return std::all_of(name.begin() + kPrefix.size(), name.end(),
                     [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; });
}

struct Found {
  timespec changed{};
  fs::path path;
};

std::vector<Found> find_newest_first(const fs::path& parent) {
  std::vector<Found> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent)) {
    struct stat about {};
    if (!is_ours(entry.path().filename().string()) || ::lstat(entry.path().c_str(), &about) != 0) continue;
    if (S_ISDIR(about.st_mode) && about.st_uid == ::geteuid()) found.push_back({about.st_mtim, entry.path()});
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::tie(a.changed.tv_sec, a.changed.tv_nsec) > std::tie(b.changed.tv_sec, b.changed.tv_nsec);
  });
  return found;
}

void remove_unless_held(const fs::path& path) {
  const UniqueFd folder = open_folder(path);
  struct stat about {};
  if (!folder.valid() || ::fstat(folder.get(), &about) != 0 || about.st_uid != ::geteuid()) return;
  if (!lock(folder.get()) || !is_still_there(path, folder.get())) return;
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

}  // namespace

TemporaryLogs make_temporary_logs(const fs::path& parent) {
  constexpr int kTries = 10;
  for (int tries = 0;; ++tries) {
    std::string pattern = (parent / fmt::format("{}XXXXXX", kPrefix)).string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw IoError(
          fmt::format("cannot create a folder for the ranks' logs in {} ({})", parent.string(), error_words(errno)),
          "set TMPDIR, or pass --log-dir");
    }
    TemporaryLogs logs{pattern, open_folder(pattern)};
    const int error = logs.lock.valid() ? 0 : errno;
    if (is_shortage(error)) throw_cannot("open the folder of the ranks' logs", error);
    // Another launcher may have locked the new folder first, to remove it as an old one.
    const bool is_held_by_another = logs.lock.valid() && !lock(logs.lock.get()) && errno == EWOULDBLOCK;
    if (logs.lock.valid() && !is_held_by_another && is_still_there(logs.folder, logs.lock.get())) return logs;
    if (tries == kTries) {
      throw IoError(fmt::format("{} was removed while it was being created", pattern), "set TMPDIR, or pass --log-dir");
    }
  }
}

void prune_temporary_logs(const fs::path& parent, std::size_t kept) noexcept {
  try {
    const std::vector<Found> found = find_newest_first(parent);
    for (std::size_t i = kept; i < found.size(); ++i) remove_unless_held(found[i].path);
  } catch (const std::exception&) {
    // If the folder cannot be listed, nothing is removed.
  }
}

}  // namespace lockstep::launch
