// SPDX-License-Identifier: Apache-2.0
// What the calls of calls.cpp share.
#pragma once

#include <dlfcn.h>

#include <cerrno>
#include <memory>

#include "sim/files.h"
#include "sim/network.h"

namespace lockstep::sim {

/// The call comes from a simulated process.
[[nodiscard]] inline bool is_inside() { return kernel() != nullptr && kernel()->current() != nullptr; }

/// The system's own function behind one of the same name here.
template <class Function>
[[nodiscard]] Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

/// The socket behind a descriptor; null, with errno, where it is none.
[[nodiscard]] inline std::shared_ptr<Stream> stream_of(int fd) {
  auto stream = std::dynamic_pointer_cast<Stream>(files().find(fd));
  if (!stream) errno = files().find(fd) ? ENOTSOCK : EBADF;
  return stream;
}

/// Reads or writes as `once` does, and waits where the descriptor blocks.
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
