// SPDX-License-Identifier: Apache-2.0
// Standby processes, which have loaded the program's libraries and wait to replace ranks that have to restart
// (lockstep/base/standby.h).
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/worker.h"
#include "lockstep/base/clock.h"
#include "lockstep/launch/agent.h"
#include "lockstep/store/store.h"

namespace lockstep::launch {

struct Standby {
  std::unique_ptr<Worker> worker;
  pid_t pid = 0;
};

/// A running rank.
struct RunningRank {
  int rank = 0;
  pid_t pid = 0;
};

/// Returns true if every rank is a Lockstep program that was started directly, not by a script or another program: each
/// rank has put its process ID in the store, and that process executes `path`.
[[nodiscard]] bool can_have_standbys(const std::vector<RunningRank>& ranks, Store& store,
                                     const std::filesystem::path& path);

/// One standby for each rank of the node, started a few seconds after the ranks. There are none if ranks never restart
/// or a standby cannot be started. Owned by the agent's thread.
class Standbys {
 public:
  explicit Standbys(const AgentOptions& options);

  void begin_round(TimePoint now);
  /// Returns when to start the standbys, or to try again; max() means never.
  [[nodiscard]] TimePoint due() const { return due_; }
  /// Starts the standbys if `is_possible`, with a spec for each local rank; otherwise doubles the wait. Never throws.
  void start(TimePoint now, bool is_possible, const std::function<WorkerSpec(int)>& spec_of);
  /// Removes and returns the standby of a local rank; none if it is not alive.
  [[nodiscard]] std::optional<Standby> take(int local_rank);

 private:
  const bool is_wanted_;
  const int count_;
  TimePoint due_ = TimePoint::max();
  std::chrono::seconds wait_{0};
  std::vector<Standby> standbys_;  // by local rank
};

}  // namespace lockstep::launch
