// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/launch/hosts.h"

namespace lockstep {
namespace {

// Returns the next line, read byte by byte, since later bytes belong to the next call. None at end of input.
std::optional<std::string> read_line(int fd) {
  constexpr std::size_t kLongest = 1U << 20U;
  std::string line;
  for (char c = 0; line.size() < kLongest;) {
    const ssize_t got = ::read(fd, &c, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    if (c == '\n') return line;
    line += c;
  }
  return std::nullopt;
}

// Reverses the escaping of first_orders().
std::string value_of(std::string_view line) {
  std::string value;
  for (std::size_t at = 0; at < line.size(); ++at) {
    const bool is_escaped = line[at] == '\\' && at + 1 < line.size();
    if (is_escaped) ++at;
    value += is_escaped && line[at] == 'n' ? '\n' : line[at];
  }
  return value;
}

std::string take_first_orders(int fd) {
  const auto token = read_line(fd);
  auto line = token ? read_line(fd) : std::nullopt;
  for (; line && !line->empty(); line = read_line(fd)) {
    const std::size_t equals = std::min(line->find('='), line->size());
    const std::string value = value_of(std::string_view(*line).substr(std::min(equals + 1, line->size())));
    ::setenv(line->substr(0, equals).c_str(), value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): no other thread yet
  }
  if (line) return *token;
  throw UsageError("standard input ended before the token and the environment were received",
                   "--orders-on-input is meant for lockstep run --hosts, which writes the orders");
}

int signal_of(const std::string& name) {
  for (int number = 1; number < NSIG; ++number) {
    const char* known = ::sigabbrev_np(number);
    if (known != nullptr && name == known) return number;
  }
  return 0;
}

void obey(int fd) {
  while (const auto line = read_line(fd)) {
    if (const int number = signal_of(*line); number != 0) ::kill(::getpid(), number);
  }
  ::kill(::getpid(), SIGTERM);
}

}  // namespace

std::string obey_input() {
  UniqueFd input(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  std::string token = take_first_orders(input.get());
  const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (nothing.valid()) ::dup2(nothing.get(), STDIN_FILENO);
  // Blocks all signals in the new thread, since other threads are waiting for them.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([fd = input.release()] { obey(fd); }).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return token;
}

}  // namespace lockstep
