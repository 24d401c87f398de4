// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
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

/// Starts the program. `input` becomes its stdin; -1 means /dev/null.
pid_t spawn_child(std::vector<std::string>& command, int input, const Pipe& out, const Pipe& err) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (input < 0) {
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  } else {
    ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  }
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

/// Reads the available bytes. Returns false at the end of the stream.
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

/// Waits for either stream and reads the available bytes. Returns false once time is up.
bool read_more(SteadyTime end, UniqueFd& out, UniqueFd& err, std::string& said, std::string& errors) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
  if (left <= 0) return false;
  pollfd entries[2] = {{out.get(), POLLIN, 0}, {err.get(), POLLIN, 0}};
  if (::poll(entries, 2, static_cast<int>(left)) < 0) return errno == EINTR;
  if (entries[0].revents != 0) read_some(out, said, kMostOutput);
  if (entries[1].revents != 0) read_some(err, errors, kMostErrors);
  return true;
}

/// Reads until `end`. Returns true if both streams have ended.
bool read_until(SteadyTime end, Pipe& out, Pipe& err, ChildResult& result) {
  while (out.reader.valid() || err.reader.valid()) {
    if (!read_more(end, out.reader, err.reader, result.out, result.err)) return false;
  }
  return true;
}

int wait_for(pid_t pid, int& status) {
  pid_t ended = 0;
  while ((ended = ::waitpid(pid, &status, 0)) < 0 && errno == EINTR) continue;
  return ended;
}

}  // namespace

ChildResult run_child(std::vector<std::string> command, std::chrono::milliseconds limit) {
  Pipe out;
  Pipe err;
  const pid_t pid = spawn_child(command, -1, out, err);
  out.writer.reset();
  err.writer.reset();
  ChildResult result;
  const bool is_in_time = read_until(std::chrono::steady_clock::now() + limit, out, err, result);
  if (!is_in_time) {
    ::kill(pid, SIGTERM);
    if (!read_until(std::chrono::steady_clock::now() + kTimeToEnd, out, err, result)) ::kill(pid, SIGKILL);
  }
  int status = 0;
  if (wait_for(pid, status) == pid && is_in_time)
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

AnsweringChild::AnsweringChild(std::vector<std::string> command) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw_cannot("create a socket pair", errno);
  input_ = UniqueFd(ends[0]);
  const UniqueFd its_end(ends[1]);
  Pipe out;
  Pipe err;
  pid_ = spawn_child(command, its_end.get(), out, err);
  out_ = std::move(out.reader);
  err_ = std::move(err.reader);
}

AnsweringChild::~AnsweringChild() {
  input_.reset();
  const SteadyTime end = std::chrono::steady_clock::now() + kTimeToEnd;
  while (out_.valid() || err_.valid()) {
    if (read_more(end, out_, err_, said_, errors_)) continue;
    ::kill(pid_, SIGKILL);
    break;
  }
  int status = 0;
  wait_for(pid_, status);
}

void AnsweringChild::ask(const std::string& line) {
  const std::string bytes = line + "\n";
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t more = ::send(input_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return;
    sent += static_cast<std::size_t>(more);
  }
}

std::optional<std::string> AnsweringChild::answer(std::chrono::milliseconds limit) {
  const SteadyTime end = std::chrono::steady_clock::now() + limit;
  std::size_t length = 0;
  while ((length = said_.find('\n')) == std::string::npos) {
    if (!out_.valid() && !err_.valid()) return std::nullopt;
    if (!read_more(end, out_, err_, said_, errors_)) return std::nullopt;
  }
  std::string line = said_.substr(0, length);
  said_.erase(0, length + 1);
  return line;
}

std::string AnsweringChild::last_error() const {
  const std::size_t last = errors_.find_last_not_of('\n');
  if (last == std::string::npos) return "";
  const std::size_t before = errors_.rfind('\n', last);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  return errors_.substr(begin, last + 1 - begin);
}

}  // namespace lockstep
