// SPDX-License-Identifier: Apache-2.0
// Starts a program, captures its output and waits for it with a deadline. Finds processes by a variable in their
// environment, to check that all have ended.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

extern char** environ;

namespace lockstep::test {

// Long enough for a loaded machine; a passing test never waits that long.
inline constexpr std::chrono::seconds kPatience{60};

struct ProcessOptions {
  std::vector<std::string> command;                                   // command[0] is looked up in PATH
  std::vector<std::pair<std::string, std::string>> environment = {};  // added to this process's; "" removes a variable
  std::string folder = {};                                            // working directory; empty: this process's
};

struct ProcessResult {
  int code = -1;  // exit code as in a shell: 128 + n for signal n
  bool timed_out = false;
  std::string out;
  std::string err;
};

class Process {
 public:
  explicit Process(const ProcessOptions& options) {
    int out[2];
    int err[2];
    if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    ::posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    if (!options.folder.empty()) ::posix_spawn_file_actions_addchdir_np(&actions, options.folder.c_str());
    auto arguments = options.command;
    auto variables = merged(options.environment);
    const int problem = ::posix_spawnp(&pid_, options.command.at(0).c_str(), &actions, nullptr,
                                       pointers(arguments).data(), pointers(variables).data());
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(out[1]);
    ::close(err[1]);
    streams_[0] = {out[0], {}};
    streams_[1] = {err[0], {}};
    if (problem != 0) throw std::runtime_error(options.command[0] + ": " + std::strerror(problem));
    pidfd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  }
  ~Process() {
    if (!is_done_ && pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    for (auto& stream : streams_) ::close(stream.fd);
    ::close(pidfd_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  [[nodiscard]] const std::string& out() const { return streams_[0].text; }
  [[nodiscard]] const std::string& err() const { return streams_[1].text; }

  // Reads until stdout or stderr contains `words`; false if the process ends or times out first.
  bool wait_for_output(const std::string& words, std::chrono::milliseconds limit = kPatience) {
    return pump(limit, [&] { return (out() + "\n" + err()).find(words) != std::string::npos; });
  }

  // Waits until the process itself ends; its descendants may hold the pipes. After the limit it is killed.
  ProcessResult wait(std::chrono::milliseconds limit = kPatience) {
    pump(limit, [] { return false; });
    ProcessResult result;
    result.timed_out = !has_ended(0);
    if (result.timed_out) ::kill(pid_, SIGKILL);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    is_done_ = true;
    drain();
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    result.out = out();
    result.err = err();
    return result;
  }

 private:
  struct Stream {
    int fd = -1;
    std::string text;
  };

  static std::vector<std::string> merged(const std::vector<std::pair<std::string, std::string>>& changes) {
    std::vector<std::string> variables;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      bool is_changed = false;
      for (const auto& change : changes) is_changed |= text.rfind(change.first + "=", 0) == 0;
      if (!is_changed) variables.push_back(text);
    }
    for (const auto& [name, value] : changes) {
      if (!value.empty()) variables.push_back(name + "=" + value);
    }
    return variables;
  }

  static std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (auto& text : texts) all.push_back(text.data());
    all.push_back(nullptr);
    return all;
  }

  bool has_ended(int wait_ms) const {
    pollfd entry{pidfd_, POLLIN, 0};
    return ::poll(&entry, 1, wait_ms) > 0;
  }

  bool pump(std::chrono::milliseconds limit, const std::function<bool()>& is_enough) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    for (;;) {
      if (is_enough()) return true;
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
      if (left <= 0) return false;
      pollfd entries[3] = {{streams_[0].fd, POLLIN, 0}, {streams_[1].fd, POLLIN, 0}, {pidfd_, POLLIN, 0}};
      if (::poll(entries, 3, static_cast<int>(left)) < 0 && errno != EINTR) return false;
      if (entries[2].revents != 0) {
        drain();
        return is_enough();
      }
      for (int i = 0; i < 2; ++i) {
        if (entries[i].revents != 0) read_some(streams_[i]);
      }
    }
  }

  static bool read_some(Stream& stream) {
    char chunk[4096];
    const auto got = ::read(stream.fd, chunk, sizeof chunk);
    if (got > 0) {
      stream.text.append(chunk, static_cast<std::size_t>(got));
    } else if (got == 0 || errno != EINTR) {
      ::close(stream.fd);
      stream.fd = -1;  // poll ignores it
    }
    return got > 0;
  }

  // Reads what is in the pipes now.
  void drain() {
    for (auto& stream : streams_) {
      pollfd entry{stream.fd, POLLIN, 0};
      while (stream.fd >= 0 && ::poll(&entry, 1, 0) > 0 && read_some(stream)) {
      }
    }
  }

  pid_t pid_ = -1;
  int pidfd_ = -1;
  bool is_done_ = false;
  Stream streams_[2];
};

inline ProcessResult run_process(const ProcessOptions& options, std::chrono::milliseconds limit = kPatience) {
  return Process(options).wait(limit);
}

// Processes, without zombies, that started with exactly this NAME=VALUE in their environment.
inline std::vector<pid_t> processes_with(const std::string& variable) {
  std::vector<pid_t> found;
  DIR* folder = ::opendir("/proc");
  while (const dirent* entry = ::readdir(folder)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0) continue;
    std::ifstream file("/proc/" + std::string(entry->d_name) + "/environ", std::ios::binary);
    const std::string all = '\0' + std::string(std::istreambuf_iterator<char>(file), {}) + '\0';
    if (all.find('\0' + variable + '\0') != std::string::npos) found.push_back(pid);
  }
  ::closedir(folder);
  return found;
}

// Waits until `condition` is true. For changes that come without an event, such as the end of another process.
inline bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds limit = kPatience) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace lockstep::test
