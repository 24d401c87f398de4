// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/ucx/inherited_sockets.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <exception>
#include <filesystem>
#include <system_error>

#include "lockstep/base/log.h"
#include "lockstep/base/whole_number.h"

namespace lockstep::comm {
namespace {

bool is_inherited(int fd) {
  struct stat status {};
  const int flags = ::fcntl(fd, F_GETFD);
  return flags >= 0 && (flags & FD_CLOEXEC) == 0 && ::fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

std::set<int> inherited_sockets() {
  std::set<int> found;
  std::error_code problem;
  std::filesystem::directory_iterator entries("/proc/self/fd", problem);
  for (; !problem && entries != std::filesystem::directory_iterator(); entries.increment(problem)) {
    const auto fd = parse_whole(entries->path().filename().string(), {});
    if (fd && is_inherited(static_cast<int>(*fd))) found.insert(static_cast<int>(*fd));
  }
  return found;
}

}  // namespace

InheritedSockets::InheritedSockets() : others_(inherited_sockets()) {}

void InheritedSockets::keep_back() const noexcept {
  try {
    for (const int fd : inherited_sockets()) {
      if (others_.count(fd) == 0) (void)::fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
  } catch (const std::exception& problem) {
    log::debug("ucx: UCX sockets stay open in programs that this process starts: {}", problem.what());
  }
}

}  // namespace lockstep::comm
