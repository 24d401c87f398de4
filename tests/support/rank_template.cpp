// SPDX-License-Identifier: Apache-2.0
#include "support/rank_template.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

extern char** environ;

namespace lockstep::testing {
namespace {

constexpr const char* kVariable = "LOCKSTEP_TEST_TEMPLATE";  // the descriptor of the template's socket
constexpr int kSocket = 3;
constexpr std::size_t kLongest = 1 << 16;
// Prefixes of variables that libraries read when they are loaded, which is before the fork.
constexpr std::array kReadAtLoad = {"OMP_",    "GOMP_",  "OPENBLAS_", "MKL_", "LD_",
                                    "MALLOC_", "GLIBC_", "TORCH_",    "CUDA_"};

using Env = std::map<std::string, std::string>;

bool is_served = false;  // main() has called serve_as_template()

/// This process's environment with `changes`, without gtest's variables, because gtest's sharding must not affect a
/// rank.
Env environment_with(const Env& changes) {
  Env env = changes;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t at = text.find('=');
    if (!text.starts_with("GTEST_")) env.try_emplace(std::string(text.substr(0, at)), text.substr(at + 1));
  }
  return env;
}

/// Packs test, log, working folder and environment as "a\0b\0".
std::string packed(const RankStart& rank, const Env& env) {
  std::string text = rank.test + '\0' + rank.log + '\0' + std::filesystem::current_path().string() + '\0';
  for (const auto& [key, value] : env) text += key + "=" + value + '\0';
  return text;
}

std::vector<std::string> unpacked(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t end = text.find('\0'); end != std::string_view::npos; end = text.find('\0')) {
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return parts;
}

Env read_at_load(const Env& env) {
  Env read;
  for (const auto& entry : env) {
    for (const std::string_view prefix : kReadAtLoad) {
      if (entry.first.starts_with(prefix)) read.insert(entry);
    }
  }
  return read;
}

/// Turns this process into the rank, with its environment and its log. Waits until the test process is its parent.
std::string become_rank(const std::vector<std::string>& parts, pid_t middle) {
  while (getppid() == middle) usleep(100);
  const int log = open(parts.at(1).c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  close(log);
  std::filesystem::current_path(parts.at(2));
  clearenv();
  for (std::size_t i = 3; i < parts.size(); ++i) {
    const std::size_t at = parts[i].find('=');
    setenv(parts[i].substr(0, at).c_str(), parts[i].c_str() + at + 1, 1);
  }
  return parts.at(0);
}

/// Forks twice, so that the rank becomes a child of its nearest adopting ancestor. Returns the test's name in the rank.
std::optional<std::string> fork_rank(int socket, const std::vector<std::string>& parts) {
  const pid_t middle = fork();
  if (middle == 0) {
    const pid_t self = getpid();
    const pid_t rank = fork();
    if (rank == 0) {
      close(socket);
      return become_rank(parts, self);
    }
    (void)!write(socket, &rank, sizeof rank);
    _exit(0);
  }
  waitpid(middle, nullptr, 0);
  const pid_t done = 0;
  (void)!write(socket, &done, sizeof done);
  return std::nullopt;
}

/// Starts this program again as a template; returns the other end of its socket.
int start_template(Env env) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return -1;
  env[kVariable] = std::to_string(kSocket);
  std::vector<std::string> variables;
  for (const auto& [key, value] : env) variables.push_back(key + "=" + value);
  std::vector<char*> envp;
  for (std::string& text : variables) envp.push_back(text.data());
  envp.push_back(nullptr);
  std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  char* argv[] = {program.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], kSocket);
  pid_t pid = -1;
  const int problem = posix_spawn(&pid, program.c_str(), &actions, nullptr, argv, envp.data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (problem == 0) return ends[0];
  close(ends[0]);
  return -1;
}

/// Reads the template's replies: the rank's process id, then that its first parent has ended. Returns the id, or -1.
pid_t ask(int socket, const std::string& text) {
  pid_t pid = -1;
  pid_t done = -1;
  const bool sent = write(socket, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const bool told =
      sent && read(socket, &pid, sizeof pid) == sizeof pid && read(socket, &done, sizeof done) == sizeof done;
  return told ? pid : -1;
}

}  // namespace

std::optional<std::string> serve_as_template() {
  is_served = true;
  if (getenv(kVariable) == nullptr) return std::nullopt;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string text(kLongest, '\0');
  for (;;) {
    const ssize_t size = read(kSocket, text.data(), text.size());
    if (size <= 0) _exit(0);
    const auto test = fork_rank(kSocket, unpacked(std::string_view(text).substr(0, static_cast<std::size_t>(size))));
    if (test) return test;
  }
}

pid_t start_from_template(const RankStart& rank) {
  if (!is_served) return -1;
  const Env env = environment_with(rank.env);
  static const Env first = env;
  static const int socket = start_template(first);
  const std::string text = packed(rank, env);
  if (socket < 0 || text.size() > kLongest || read_at_load(env) != read_at_load(first)) return -1;
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // the rank's first parent ends immediately: this process adopts the rank
  const pid_t pid = ask(socket, text);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  return pid;
}

}  // namespace lockstep::testing
