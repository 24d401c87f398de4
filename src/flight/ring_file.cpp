// SPDX-License-Identifier: Apache-2.0
// Opens the file of a ring, in a folder that another user may have created.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/flight/snapshot.h"

namespace lockstep::flight {
namespace {

namespace fs = std::filesystem;

bool is_number(const fs::path& part) {
  const std::string& text = part.native();
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Returns true for a process's descriptor, such as "/proc/4711/fd/5". Files elsewhere cannot have such a name.
bool is_descriptor(const fs::path& target) {
  std::vector<fs::path> parts(target.begin(), target.end());
  return parts.size() == 5 && parts[0] == "/" && parts[1] == "proc" && is_number(parts[2]) && parts[3] == "fd" &&
         is_number(parts[4]);
}

/// Opens a memory file by its link in /proc. Only memory files have seals; the one checked here prevents shrinking.
UniqueFd open_memory(const fs::path& link) {
  std::error_code problem;
  const fs::path target = fs::read_symlink(link, problem);
  if (problem || !is_descriptor(target)) return UniqueFd();
  UniqueFd memory(::open(target.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  const int seals = memory.valid() ? ::fcntl(memory.get(), F_GET_SEALS) : 0;
  return seals > 0 && (seals & F_SEAL_SHRINK) != 0 ? std::move(memory) : UniqueFd();
}

bool read_whole(int fd, Ring& ring) {
  auto* bytes = reinterpret_cast<char*>(&ring);
  for (std::size_t have = 0; have < sizeof ring;) {
    const ssize_t got = ::pread(fd, bytes + have, sizeof ring - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    have += static_cast<std::size_t>(got);
  }
  return true;
}

DataError no_ring(const fs::path& file) {
  return DataError(fmt::format("{} is not a flight ring of this version of Lockstep", file.string()));
}

}  // namespace

UniqueFd open_ring_file(const fs::path& file) {
  std::error_code problem;
  const bool is_link = fs::is_symlink(fs::symlink_status(file, problem));
  UniqueFd fd = is_link ? open_memory(file) : try_open_regular_file(file, O_NOFOLLOW);
  struct stat status {};
  if (!fd.valid() && is_link) {
    throw DataError(fmt::format("{} is a link, but not to the memory of a running launcher", file.string()));
  }
  if (!fd.valid() || ::fstat(fd.get(), &status) != 0) {
    throw DataError(fmt::format("cannot read {}: {}", file.string(), std::strerror(errno)));
  }
  if (status.st_size != static_cast<off_t>(sizeof(Ring))) throw no_ring(file);
  return fd;
}

Snapshot read_ring_file(const fs::path& file) {
  const UniqueFd fd = open_ring_file(file);
  const auto ring = std::make_unique<Ring>();
  const bool is_whole = read_whole(fd.get(), *ring) && ring->magic.load() == kMagic;
  if (!is_whole) throw no_ring(file);
  return copy_ring(*ring);
}

}  // namespace lockstep::flight
