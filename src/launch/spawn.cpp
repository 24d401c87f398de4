// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/spawn.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/log.h"
#include "lockstep/launch/gpus.h"
#include "lockstep/launch/processes.h"

namespace lockstep {
namespace {

int process_count(const SpawnOptions& options) {
  if (options.processes < kAuto) {
    throw UsageError(fmt::format("spawn: {} processes", options.processes), "use a number of at least 1, or kAuto");
  }
  if (options.processes != kAuto) return options.processes;
  show_slices();
  const ProcessCount found = resolve_process_count("auto");
  if (found.count > 1) log::note("{} ranks: {}", found.count, found.reason);
  return found.count;
}

std::string own_path() {
  std::error_code problem;
  auto path = std::filesystem::read_symlink("/proc/self/exe", problem);
  // The path is gone if the program was rebuilt after it started; /proc/self/exe still refers to the running program.
  return !problem && std::filesystem::exists(path, problem) ? path.string() : "/proc/self/exe";
}

volatile pid_t agent_thread = 0;

void pass_to_agent(int number) {
  const int before = errno;
  ::syscall(SYS_tgkill, ::getpid(), agent_thread, number);
  errno = before;
}

// Makes other threads forward signals to this thread, on which the agent handles them. On other threads, such as those
// that a BLAS library starts when it is loaded, a signal would end the process.
void gather_signals() {
  agent_thread = static_cast<pid_t>(::syscall(SYS_gettid));
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH}) {
    sigset_t one;
    ::sigemptyset(&one);
    ::sigaddset(&one, number);
    struct sigaction action {};
    ::sigaction(number, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;  // nohup, or a background job of a shell
    ::pthread_sigmask(SIG_BLOCK, &one, nullptr);
    action = {};
    action.sa_handler = pass_to_agent;
    action.sa_flags = SA_RESTART;
    ::sigaction(number, &action, nullptr);
  }
}

int run_ranks(int argc, const char* const* argv, const SpawnOptions& options, int processes) {
  gather_signals();
  AgentOptions agent{.command = {own_path()},
                     .processes = processes,
                     .max_restarts = options.max_restarts,
                     .log_dir = options.log_dir,
                     .console = options.console};
  if (argc > 1) agent.command.insert(agent.command.end(), argv + 1, argv + argc);
  return run_agent(agent);
}

}  // namespace

void spawn(int argc, const char* const* argv, const SpawnOptions& options) noexcept {
  bool goes_on = false;
  const int code = guarded_main([&] {
    const int processes = is_rank() ? 1 : process_count(options);
    goes_on = processes == 1;
    return goes_on ? 0 : run_ranks(argc, argv, options, processes);
  });
  if (goes_on) fault::install_reports();
  if (!goes_on) std::exit(code);  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace lockstep
