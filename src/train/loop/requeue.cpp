// SPDX-License-Identifier: Apache-2.0
#include "train/loop/requeue.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lockstep/base/env.h"
#include "lockstep/base/log.h"
#include "lockstep/base/option_words.h"
#include "lockstep/base/signal_guard.h"

namespace lockstep::train {
namespace {

/// Returns the exit code of scontrol, or why it has none.
std::string run_scontrol(const std::string& job) {
  std::string program = "scontrol";
  std::string verb = "requeue";
  std::string which = job;
  char* words[] = {program.data(), verb.data(), which.data(), nullptr};
  pid_t pid = 0;
  const int failed = ::posix_spawnp(&pid, program.c_str(), nullptr, ChildSignals().attributes(), words, environ);
  if (failed != 0) return std::strerror(failed);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return std::strerror(errno);  // SIGCHLD is ignored: its status is lost
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  return WIFEXITED(status) ? fmt::format("exit code {}", WEXITSTATUS(status)) : "it was killed";
}

}  // namespace

std::optional<std::string> slurm_job() {
  const auto array = env::get("SLURM_ARRAY_JOB_ID");
  const auto task = env::get("SLURM_ARRAY_TASK_ID");
  if (array && task) return fmt::format("{}_{}", *array, *task);
  return env::get("SLURM_JOB_ID");
}

bool asks_for_requeue(StopReason reason) {
  return reason == StopReason::kUserSignal || reason == StopReason::kTimeLimit;
}

bool requeue(const std::string& job) {
  const std::string problem = run_scontrol(job);
  if (problem.empty()) {
    log::note("Slurm was asked to start job {} again", job);
    return true;
  }
  log::warn("scontrol requeue {} failed ({}): start the job again by hand, with {}", job, problem,
            option_words("resume", "auto"));
  return false;
}

}  // namespace lockstep::train
