// SPDX-License-Identifier: Apache-2.0
#include "store/inner_door.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "lockstep/base/resources.h"

namespace lockstep {

Result<store::Socket> StoreDoor::open() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    throw_cannot("connect to the store", errno);
  }
  UniqueFd client_end(ends[0]);
  UniqueFd server_end(ends[1]);
  const std::lock_guard lock(mutex_);
  if (!admit_) return Failure{"the server has ended"};
  admit_(std::move(server_end));
  return store::Socket(std::move(client_end));
}

void StoreDoor::close() {
  const std::lock_guard lock(mutex_);
  admit_ = nullptr;
}

}  // namespace lockstep
