// SPDX-License-Identifier: Apache-2.0
#include "data/sources/files/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/resources.h"
#include "lockstep/base/signal_guard.h"

namespace lockstep::data {
namespace {

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

ByteStream ByteStream::open_file(const std::string& path) { return {path, open_regular_file(path), -1}; }

ByteStream ByteStream::run_command(const std::string& command) {
  std::string name = "pipe:" + command;
  int ends[2] = {};
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_cannot("start " + name, errno);
  UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, writer.get(), STDOUT_FILENO);
  std::string shell = "/bin/sh";
  std::string flag = "-c";
  std::string copy = command;
  const std::array<char*, 4> words = {shell.data(), flag.data(), copy.data(), nullptr};
  pid_t child = -1;
  const int code = ::posix_spawn(&child, shell.c_str(), &actions, ChildSignals().attributes(), words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (code != 0) throw_cannot("start " + name, code);
  return {std::move(name), std::move(reader), child};
}

ByteStream::ByteStream(ByteStream&& other) noexcept
    : name_(std::move(other.name_)), fd_(std::move(other.fd_)), child_(std::exchange(other.child_, -1)) {}

ByteStream::~ByteStream() {
  fd_.reset();
  if (child_ < 0) return;
  ::kill(child_, SIGTERM);  // the rest of its output is not needed
  (void)wait_for(child_);
}

std::size_t ByteStream::read(char* to, std::size_t size) {
  std::size_t have = 0;
  while (have < size) {
    const ssize_t got = ::read(fd_.get(), to + have, size - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw IoError(fmt::format("cannot read {}: {}", name_, std::strerror(errno)));
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  return have;
}

void ByteStream::close() {
  // A command whose output is not read to its end would be killed by a signal, and its status would report that.
  std::array<char, 65536> rest{};
  while (fd_.valid() && read(rest.data(), rest.size()) == rest.size()) {
  }
  fd_.reset();
  if (child_ < 0) return;
  const int status = wait_for(std::exchange(child_, -1));
  if (WIFSIGNALED(status)) throw DataError(fmt::format("{} was terminated by signal {}", name_, WTERMSIG(status)));
  if (WEXITSTATUS(status) != 0) {
    throw DataError(fmt::format("{} failed with exit status {}", name_, WEXITSTATUS(status)),
                    "run the command by hand to see why");
  }
}

}  // namespace lockstep::data
