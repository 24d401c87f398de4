// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "lockstep/base/file_system.h"
#include "lockstep/base/resources.h"
#include "lockstep/base/signal_guard.h"

namespace lockstep {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

constexpr std::size_t kMostOutput = 1U << 20U;
constexpr std::size_t kMostErrors = 4096;
constexpr auto kTimeToEnd = std::chrono::seconds(2);

struct Pipe {
  UniqueFd reader;
  UniqueFd writer;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw_cannot("make a pipe", errno);
    reader = UniqueFd(ends[0]);
    writer = UniqueFd(ends[1]);
  }
};

pid_t spawn_child(std::vector<std::string>& command, const Pipe& out, const Pipe& err) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out.writer.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err.writer.get(), STDERR_FILENO);
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  pid_t pid = 0;
  const int problem = ::posix_spawnp(&pid, words[0], &actions, ChildSignals().attributes(), words.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (problem != 0) throw_cannot(fmt::format("start {}", command[0]), problem);
  return pid;
}

/// Reads what is there; false at the end.
bool read_some(UniqueFd& fd, std::string& text, std::size_t most) {
  std::array<char, 4096> bytes;
  const ssize_t count = ::read(fd.get(), bytes.data(), bytes.size());
  if (count < 0 && errno == EINTR) return true;
  if (count <= 0) {
    fd.reset();
    return false;
  }
  text.append(bytes.data(), static_cast<std::size_t>(count));
  if (text.size() > most) text.erase(0, text.size() - most);
  return true;
}

/// True: both streams have ended.
bool read_until(SteadyTime end, Pipe& out, Pipe& err, ChildResult& result) {
  while (out.reader.valid() || err.reader.valid()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    if (left <= 0) return false;
    pollfd entries[2] = {{out.reader.get(), POLLIN, 0}, {err.reader.get(), POLLIN, 0}};
    if (::poll(entries, 2, static_cast<int>(left)) < 0 && errno != EINTR) return false;
    if (entries[0].revents != 0) read_some(out.reader, result.out, kMostOutput);
    if (entries[1].revents != 0) read_some(err.reader, result.err, kMostErrors);
  }
  return true;
}

}  // namespace

ChildResult run_child(std::vector<std::string> command, std::chrono::milliseconds limit) {
  Pipe out;
  Pipe err;
  const pid_t pid = spawn_child(command, out, err);
  out.writer.reset();
  err.writer.reset();
  ChildResult result;
  const bool is_in_time = read_until(std::chrono::steady_clock::now() + limit, out, err, result);
  if (!is_in_time) {
    ::kill(pid, SIGTERM);
    if (!read_until(std::chrono::steady_clock::now() + kTimeToEnd, out, err, result)) ::kill(pid, SIGKILL);
  }
  int status = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(pid, &status, 0)) < 0 && errno == EINTR) continue;
  if (is_in_time && ended == pid) result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace lockstep
