// SPDX-License-Identifier: Apache-2.0
#include "launch/standbys.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "launch/hangs/process_state.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/standby.h"

namespace lockstep::launch {
namespace {

// The ranks' own startup comes first.
constexpr auto kFirstLook = std::chrono::seconds(10);
constexpr auto kStartTime = std::chrono::milliseconds(500);
constexpr auto kLastLook = std::chrono::minutes(10);

// Starts a standby. Its stub reports immediately whether it could start the program.
Standby started(const WorkerSpec& spec) {
  Standby standby{.worker = std::make_unique<Worker>(spec)};
  pollfd entry{standby.worker->control(), POLLIN, 0};
  ::poll(&entry, 1, static_cast<int>(kStartTime.count()));
  const auto report = standby.worker->read_report();
  if (report && report->event == StubEvent::kStarted) standby.pid = report->value;
  return standby;
}

bool executes(pid_t pid, const std::filesystem::path& path) {
  std::error_code problem;
  return std::filesystem::equivalent(fmt::format("/proc/{}/exe", pid), path, problem);
}

}  // namespace

bool can_have_standbys(const std::vector<RunningRank>& ranks, Store& store, const std::filesystem::path& path) {
  const auto is_ready = [&](const RunningRank& rank) {
    const auto pid = store.try_get(standby::kKey + std::to_string(rank.rank));
    return pid == std::to_string(rank.pid) && executes(rank.pid, path);
  };
  try {
    return std::all_of(ranks.begin(), ranks.end(), is_ready);
  } catch (const Error&) {
    return false;  // the store is gone; its heartbeat connection reports the loss
  }
}

Standbys::Standbys(const AgentOptions& options)
    : is_wanted_(options.use_standby &&
                 (options.max_restarts > 0 || (options.min_nodes > 0 && options.min_nodes < options.nodes))),
      count_(options.processes) {}

void Standbys::begin_round(TimePoint now) {
  standbys_.clear();
  wait_ = kFirstLook;
  due_ = is_wanted_ ? now + wait_ : TimePoint::max();
}

void Standbys::start(TimePoint now, bool is_possible, const std::function<WorkerSpec(int)>& spec_of) {
  due_ = TimePoint::max();
  if (!is_possible) {
    wait_ *= 2;
    if (wait_ < kLastLook) due_ = now + wait_;
    return;
  }
  try {
    for (int local_rank = 0; local_rank < count_; ++local_rank) {
      WorkerSpec spec = spec_of(local_rank);
      spec.is_standby = true;
      spec.environment.push_back(fmt::format("{}={}", standby::kVariable, kStandbyDescriptor));
      standbys_.push_back(started(spec));
    }
  } catch (const Error& problem) {
    log::debug("no standby: {}", problem.what());
    standbys_.clear();
  }
}

std::optional<Standby> Standbys::take(int local_rank) {
  if (static_cast<std::size_t>(local_rank) >= standbys_.size()) return std::nullopt;
  Standby standby = std::move(standbys_[static_cast<std::size_t>(local_rank)]);
  // A report after the start can only mean that the standby has ended.
  if (!standby.worker || standby.pid == 0 || standby.worker->read_report() || standby.worker->is_gone()) {
    return std::nullopt;
  }
  const auto process = read_process(standby.pid);
  const bool can_run = process && process->state != 'T' && process->state != 't';
  return can_run ? std::optional(std::move(standby)) : std::nullopt;
}

}  // namespace lockstep::launch
