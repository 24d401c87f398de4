// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/standard_streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/resources.h"

namespace lockstep {
namespace {

void open_if_closed(int fd) noexcept {
  if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) return;
  const int opened = ::open("/dev/null", O_RDWR);  // gets the lowest free descriptor
  if (opened < 0 || opened == fd) return;
  ::dup2(opened, fd);
  ::close(opened);
}

// The errno of the first write to standard output that failed; 0: unknown. A later fflush() does not report it again.
std::atomic<int> output_error{0};

void keep_output_error(int number) noexcept {
  int unknown = 0;
  output_error.compare_exchange_strong(unknown, number);
}

// A write to a pipe or a socket fails only if the reader left.
bool is_output_a_pipe() noexcept {
  struct stat facts {};
  return ::fstat(STDOUT_FILENO, &facts) == 0 && (S_ISFIFO(facts.st_mode) || S_ISSOCK(facts.st_mode));
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
  const bool is_written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (!is_written && file == stdout) keep_output_error(errno);
}

void require_output() {
  if (std::fflush(stdout) != 0) keep_output_error(errno);
  if (std::ferror(stdout) == 0 || is_output_a_pipe()) return;
  const int error = output_error;
  const std::string reason = error == 0 ? "" : ": " + error_words(error);
  const std::string remedy = write_remedy(error);
  throw IoError(
      "standard output was not written completely" + reason,
      fmt::format("{}, and run the command again", remedy.empty() ? "check the disk that it goes to" : remedy));
}

}  // namespace lockstep
