// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/standby.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace lockstep::standby {
namespace {

// Reads until an empty entry; returns false if the other end closes before that.
bool read_message(int fd, std::string& message) {
  char bytes[4096];
  for (;;) {
    const ssize_t count = ::read(fd, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    message.append(bytes, static_cast<std::size_t>(count));
    if (message.ends_with(std::string(2, '\0'))) return true;
  }
}

void take_environment(const std::string& message) {
  ::clearenv();
  for (std::size_t at = 0; at < message.size() && message[at] != '\0';) {
    const std::string entry = message.c_str() + at;
    at += entry.size() + 1;
    const std::size_t equals = entry.find('=', 1);
    if (equals == std::string::npos) continue;
    ::setenv(entry.substr(0, equals).c_str(), entry.c_str() + equals + 1, 1);  // NOLINT(concurrency-mt-unsafe)
  }
}

}  // namespace

std::string to_message(const std::vector<std::string>& environment) {
  std::string message;
  for (const std::string& entry : environment) message += entry + '\0';
  return message + '\0';
}

void wait_if_asked() noexcept {
  const char* number = std::getenv(kVariable);  // NOLINT(concurrency-mt-unsafe): before main
  if (number == nullptr || *number == '\0') return;
  const int fd = std::atoi(number);
  std::string message;
  if (fd < 3 || !read_message(fd, message)) ::_exit(0);
  ::close(fd);
  take_environment(message);
}

}  // namespace lockstep::standby
