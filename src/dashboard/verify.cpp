// SPDX-License-Identifier: Apache-2.0
#include "dashboard/verify.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "lockstep/base/file_system.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/signal_guard.h"

namespace lockstep::dashboard {
namespace {

constexpr std::size_t kMostText = 16 << 10;

std::string read_all(int file) {
  std::string text;
  std::array<char, 4096> piece{};
  for (ssize_t got; (got = ::read(file, piece.data(), piece.size())) > 0 || (got < 0 && errno == EINTR);) {
    if (got > 0 && text.size() < kMostText) text.append(piece.data(), static_cast<std::size_t>(got));
  }
  return text;
}

int exit_code_of(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// A program's standard output and errors, which go into a pipe.
class ToPipe {
 public:
  explicit ToPipe(int file) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, file, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, file, STDERR_FILENO);
  }
  ~ToPipe() { posix_spawn_file_actions_destroy(&actions_); }
  ToPipe(const ToPipe&) = delete;
  ToPipe& operator=(const ToPipe&) = delete;

  [[nodiscard]] const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

}  // namespace

nlohmann::json verify_checkpoint(const std::filesystem::path& checkpoint) {
  const auto program = (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "lockstep-worker").string();
  std::vector<std::string> words = {program, "checkpoint", "verify", std::filesystem::absolute(checkpoint).string()};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {{"whole", false}, {"text", std::strerror(errno)}};
  const UniqueFd out(ends[0]);
  UniqueFd in(ends[1]);
  const ToPipe actions(in.get());
  pid_t child = 0;
  const int problem =
      ::posix_spawn(&child, program.c_str(), actions.get(), ChildSignals().attributes(), arguments.data(), environ);
  if (problem != 0) {
    return {{"whole", false}, {"text", fmt::format("cannot execute {}: {}", program, std::strerror(problem))}};
  }
  in = UniqueFd();
  const std::string text = read_all(out.get());
  return {{"whole", exit_code_of(child) == 0}, {"text", text::printable(text)}};
}

}  // namespace lockstep::dashboard
