// SPDX-License-Identifier: Apache-2.0
#include "train/loop/requeue.h"

#include <fmt/format.h>

#include <chrono>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/option_words.h"
#include "lockstep/base/printable.h"
#include "lockstep/launch/child.h"

namespace lockstep::train {
namespace {

/// Returns why scontrol refused; "" if it did not.
std::string run_scontrol(const std::string& job) {
  constexpr auto kPatience = std::chrono::minutes(10);
  try {
    const ChildResult result = run_child({"scontrol", "requeue", job}, kPatience);
    const std::string said = result.err.substr(0, result.err.find_last_not_of(" \t\n") + 1);
    return result.code == 0 ? "" : fmt::format("exit code {}: {}", result.code, text::printable_line(said));
  } catch (const Error& error) {
    return error.message();
  }
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
    log::note("Slurm will restart job {}", job);
    return true;
  }
  log::warn("scontrol requeue {} failed ({}): restart the job by hand, with {}", job, problem,
            option_words("resume", "auto"));
  return false;
}

}  // namespace lockstep::train
