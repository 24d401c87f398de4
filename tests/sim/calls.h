// SPDX-License-Identifier: Apache-2.0
// Helpers for the files that define the C library's calls.
#pragma once

#include <dlfcn.h>

#include <cerrno>
#include <memory>

#include "sim/files.h"
#include "sim/network.h"

namespace lockstep::sim {

/// Returns true if the call comes from a simulated process.
[[nodiscard]] inline bool is_inside() { return kernel() != nullptr && kernel()->current() != nullptr; }

/// Returns the system's own function of this name, which is hidden by a function of this program.
template <class Function>
[[nodiscard]] Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

/// Returns the socket behind a descriptor; null with errno set if it is not a socket.
[[nodiscard]] inline std::shared_ptr<Stream> stream_of(int fd) {
  auto stream = std::dynamic_pointer_cast<Stream>(files().find(fd));
  if (!stream) errno = files().find(fd) ? ENOTSOCK : EBADF;
  return stream;
}

/// Reads or writes with `once`. If the descriptor is not ready and `may_wait` is set, waits and retries.
template <class Once>
ssize_t patiently(const std::shared_ptr<File>& file, bool may_wait, Once once) {
  kernel()->maybe_yield();
  for (;;) {
    const ssize_t count = once();
    if (count >= 0 || errno != EAGAIN || !may_wait) return count;
    file->wait(kNever);
  }
}

}  // namespace lockstep::sim
