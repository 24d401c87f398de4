// SPDX-License-Identifier: Apache-2.0
#include "support/run_ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/store/store.h"
#include "support/rank_template.h"
#include "support/sanitizer.h"

extern char** environ;

namespace lockstep::testing {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(5);
constexpr int kSlower = lockstep::test::kAnySanitizer ? 5 : 1;  // 10 s became 50 s under AddressSanitizer
constexpr const char* kBodyVariable = "LOCKSTEP_TEST_BODY";

[[noreturn]] void run_as_rank(const std::function<void(Job&)>& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int code = run_program(0, nullptr, [&](Job& job) {
    body(job);
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  std::fflush(nullptr);
  std::_Exit(code);
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string tail(const std::string& text) {
  constexpr std::size_t kTail = 3000;
  return text.size() <= kTail ? text : "... " + text.substr(text.size() - kTail);
}

int exit_code(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

}  // namespace

int free_port() {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size);
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

class RankProcesses::Impl {
 public:
  explicit Impl(RanksOptions options)
      : options_(std::move(options)), end_(std::chrono::steady_clock::now() + kSlower * options_.deadline) {
    std::string folder = std::filesystem::temp_directory_path() / "lockstep-ranks-XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) throw IoError("no folder for the logs of the ranks");
    folder_ = folder;
    std::filesystem::create_directory(temporary_folder());
  }

  ~Impl() {
    for (Rank& rank : ranks_) {
      if (rank.ended) continue;
      ::kill(rank.pid, SIGKILL);
      waitpid(rank.pid, nullptr, 0);
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  void start(const std::string& name) {
    auto env = options_.env;
    env.try_emplace("OMP_NUM_THREADS", "1");
    env.try_emplace("LOCKSTEP_TIMEOUT", "40");  // a hang is reported before the deadline
    env[kBodyVariable] = name;
    for (const char* variable : {"TMPDIR", "XDG_RUNTIME_DIR"}) env[variable] = temporary_folder();
    if (options_.by_hand) {
      env["MASTER_ADDR"] = "127.0.0.1";
      env["MASTER_PORT"] = std::to_string(free_port());
    } else {
      const std::string token = make_token();
      server_ = std::make_unique<StoreServer>(StoreServer::Options{.token = token});
      env["LOCKSTEP_STORE"] = fmt::format("127.0.0.1:{}", server_->port());
      env["LOCKSTEP_STORE_TOKEN"] = token;
    }
    env["WORLD_SIZE"] = std::to_string(options_.world);
    for (int rank = 0; rank < options_.world; ++rank) {
      env["RANK"] = std::to_string(rank);
      if (!options_.host_sizes.empty()) env["LOCKSTEP_HOST_ID"] = fmt::format("host-{}", host_of(rank));
      if (!options_.by_hand) env["LOCAL_RANK"] = std::to_string(rank);
      Rank started{.pid = start_from_template({name, env, log_path(rank)})};
      if (started.pid < 0) started.pid = spawn(name, rank, env);
      ranks_.push_back(started);
    }
  }

  std::filesystem::path temporary_folder() const { return folder_ / "tmp"; }

  pid_t pid(int rank) const { return ranks_.at(static_cast<std::size_t>(rank)).pid; }

  bool wait_for_log(int rank, const std::string& text) {
    while (read_file(log_path(rank)).find(text) == std::string::npos) {
      if (std::chrono::steady_clock::now() >= end_) return false;
      std::this_thread::sleep_for(kPoll);
    }
    return true;
  }

  std::vector<RankEnd> wait() {
    while (!all_ended() && std::chrono::steady_clock::now() < end_) std::this_thread::sleep_for(kPoll);
    std::vector<RankEnd> ends;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      if (!rank.ended) {
        ::kill(rank.pid, SIGKILL);
        waitpid(rank.pid, nullptr, 0);
        rank.ended = true;
      }
      ends.push_back({rank.code, read_file(log_path(static_cast<int>(i)))});
    }
    return ends;
  }

 private:
  struct Rank {
    pid_t pid = -1;
    bool ended = false;
    int code = -1;
  };

  int host_of(int rank) const {
    int host = 0;
    for (int first = 0; rank >= first + options_.host_sizes.at(static_cast<std::size_t>(host)); ++host) {
      first += options_.host_sizes[static_cast<std::size_t>(host)];
    }
    return host;
  }

  std::filesystem::path log_path(int rank) const { return folder_ / fmt::format("rank-{}.log", rank); }

  bool all_ended() {
    bool all = true;
    for (Rank& rank : ranks_) {
      int status = 0;
      if (!rank.ended && waitpid(rank.pid, &status, WNOHANG) == rank.pid) {
        rank.ended = true;
        rank.code = exit_code(status);
      }
      all = all && rank.ended;
    }
    return all;
  }

  /// Re-executes this program, for ranks that cannot start from a template.
  pid_t spawn(const std::string& name, int rank, const std::map<std::string, std::string>& env) {
    std::vector<std::string> variables;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      // The parent's rank variables and gtest's sharding must not reach the child.
      if (env.count(text.substr(0, text.find('='))) == 0 && text.rfind("GTEST_", 0) != 0) variables.push_back(text);
    }
    for (const auto& [key, value] : env) variables.push_back(key + "=" + value);
    std::vector<char*> envp;
    for (std::string& text : variables) envp.push_back(text.data());
    envp.push_back(nullptr);
    std::string program = "/proc/self/exe";
    std::string filter = "--gtest_filter=" + name;
    std::string shown = std::filesystem::read_symlink(program).string();
    char* argv[] = {shown.data(), filter.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log_path(rank).c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                     0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    pid_t pid = -1;
    const int problem = posix_spawn(&pid, shown.c_str(), &actions, nullptr, argv, envp.data());
    posix_spawn_file_actions_destroy(&actions);
    if (problem != 0) throw IoError(fmt::format("rank {} could not be started: error {}", rank, problem));
    return pid;
  }

  RanksOptions options_;
  std::chrono::steady_clock::time_point end_;
  std::filesystem::path folder_;
  std::unique_ptr<StoreServer> server_;
  std::vector<Rank> ranks_;
};

RankProcesses::RankProcesses(const std::string& name, const std::function<void(Job&)>& body,
                             const RanksOptions& options) {
  if (env::get(kBodyVariable) == name) run_as_rank(body);
  impl_ = std::make_unique<Impl>(options);
  impl_->start(name);
}

RankProcesses::~RankProcesses() = default;

pid_t RankProcesses::pid(int rank) const { return impl_->pid(rank); }
bool RankProcesses::wait_for_log(int rank, const std::string& text) { return impl_->wait_for_log(rank, text); }
std::string RankProcesses::temporary_folder() const { return impl_->temporary_folder(); }
std::vector<RankEnd> RankProcesses::wait() { return impl_->wait(); }

void run_ranks(const std::string& name, const std::function<void(Job&)>& body, const RanksOptions& options) {
  RankProcesses ranks(name, body, options);
  const auto ends = ranks.wait();
  // Prefers a rank whose own expectation failed; a rank that only reports another rank's end (75) comes last.
  const auto weight = [](const RankEnd& end) {
    if (end.code == 0) return 0;
    if (end.log.find(": Failure\n") != std::string::npos) return 3;
    return end.code == 75 ? 1 : 2;
  };
  const auto worst =
      std::max_element(ends.begin(), ends.end(), [&](const auto& a, const auto& b) { return weight(a) < weight(b); });
  const auto first = worst - ends.begin();
  if (weight(*worst) == 0) return;
  const RankEnd& end = ends[static_cast<std::size_t>(first)];
  ADD_FAILURE() << "rank " << first << " of " << ends.size() << " ended with "
                << (end.code < 0 ? "nothing: killed at the deadline" : std::to_string(end.code)) << "; its log:\n"
                << tail(end.log);
}

std::string current_test() {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  return std::string(info->test_suite_name()) + "." + info->name();
}

}  // namespace lockstep::testing
