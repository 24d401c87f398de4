// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/standard_streams.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

namespace lockstep {
namespace {

void open_if_closed(int fd) noexcept {
  if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) return;
  const int opened = ::open("/dev/null", O_RDWR);  // gets the lowest free descriptor
  if (opened < 0 || opened == fd) return;
  ::dup2(opened, fd);
  ::close(opened);
}

void do_nothing(int /*number*/) {}

// Sets an empty handler. It has the effect of SIG_IGN, but execve() resets it, so executed programs get the default.
void turn_into_errno(int number) noexcept {
  struct sigaction action {};
  if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action = {};
  action.sa_handler = do_nothing;
  action.sa_flags = SA_RESTART;
  ::sigaction(number, &action, nullptr);
}

}  // namespace

void prepare_standard_streams() noexcept {
  const int before = errno;
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) open_if_closed(fd);
  turn_into_errno(SIGPIPE);
  turn_into_errno(SIGXFSZ);
  errno = before;
}

void write_to(std::FILE* file, std::string_view text) noexcept {
  (void)!std::fwrite(text.data(), 1, text.size(), file);
}

}  // namespace lockstep
