// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/file_below.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace lockstep {
namespace {

constexpr std::size_t kPiece = 64 << 10;

}  // namespace

UniqueFd open_below(const std::filesystem::path& root, const std::filesystem::path& path) {
  if (path.empty() || path.is_absolute()) return {};
  UniqueFd folder(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (auto part = path.begin(); folder.valid() && part != path.end();) {
    const std::string name = part->string();
    if (name.empty() || name == "..") return {};
    const bool is_last = ++part == path.end();
    const int flags = is_last ? O_RDONLY | O_NONBLOCK | O_NOCTTY : O_PATH | O_DIRECTORY;
    folder = UniqueFd(::openat(folder.get(), name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC));
  }
  struct stat status {};
  if (!folder.valid() || ::fstat(folder.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return folder;
}

std::optional<std::string> read_below(const std::filesystem::path& root, const std::filesystem::path& path,
                                      std::size_t most) {
  const UniqueFd file = open_below(root, path);
  if (!file.valid()) return std::nullopt;
  std::string content;
  for (;;) {
    const std::size_t before = content.size();
    content.resize(before + kPiece);
    const ssize_t got = ::read(file.get(), content.data() + before, kPiece);
    content.resize(before + static_cast<std::size_t>(got > 0 ? got : 0));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 || content.size() > most) return std::nullopt;
    if (got == 0) return content;
  }
}

}  // namespace lockstep
