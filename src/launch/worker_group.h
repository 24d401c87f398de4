// SPDX-License-Identifier: Apache-2.0
// All workers of one attempt on this node: the loop that watches them, passes on their output and stops them together.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/failure.h"
#include "launch/group_output.h"
#include "launch/hangs/flight_ring.h"
#include "launch/hangs/hang_watch.h"
#include "launch/memory_kills.h"
#include "launch/nodes/membership.h"
#include "launch/output/log_folder.h"
#include "launch/signals.h"
#include "launch/standbys.h"
#include "launch/worker.h"
#include "lockstep/base/clock.h"

namespace lockstep::launch {

/// A worker of a group with its log and its ring.
struct WorkerMember {
  std::unique_ptr<Worker> worker;
  std::unique_ptr<RankLog> log;
  std::unique_ptr<FlightRing> ring;
  pid_t pid = 0;
  bool has_ended = false;
  bool has_succeeded = false;  ///< it has ended with 0
};

struct WorkerGroupSpec {
  const AgentOptions& options;
  Membership& membership;
  const Round& round;
  const LogFolder& logs;
  const SignalGuard& signals;
  Standbys& standbys;
  std::string path;     ///< path of the program
  int log_attempt = 0;  ///< the number in the log folder
};

struct WorkerGroupResult {
  std::vector<WorkerEnd> ends;         ///< in the order in which they were noticed
  int interrupted_by = 0;              ///< the signal that asked the agent to stop
  int start_error = 0;                 ///< errno if the program could not be executed
  bool was_asked_to_save = false;      ///< its healthy ranks were stopped for a node that joins
  std::optional<FailureRecord> lost;   ///< node 0, with the store
  std::optional<FailureRecord> claim;  ///< the first failure, as far as the ranks and the store know
  std::optional<FailureRecord> found;  ///< the launcher's own finding about a rank of this node: its last word
  std::vector<std::string> stacks;     ///< the stacks of that rank if it is late, a line each
  std::int64_t last_step = -1;         ///< the furthest step that a rank of this node was in; -1: none

  /// Every rank ended with 0.
  [[nodiscard]] bool is_success() const;
};

/// The times, by AwakeClock, of acts for which no event comes.
struct StopTimes {
  std::optional<TimePoint> drop_at = {};        ///< output that is unread by then is not shown
  std::optional<TimePoint> stop_at = {};        ///< a rank left or blames another: the rest is stopped
  std::optional<TimePoint> stop_again_at = {};  ///< SIGTERM a second time
  std::optional<TimePoint> give_up_at = {};     ///< SIGKILL has not ended what is left

  /// The next of them; max(): none.
  [[nodiscard]] TimePoint next() const;
};

/// States: running -> (a failure, a signal, or every rank has ended) stopping -> gone. A rank's end is a cause or a
/// consequence of another's (failure.h); a cause is published before the others are stopped, so that they can name it.
/// Owned by the agent's thread.
class WorkerGroup {
 public:
  /// Starts the workers. Throws: IoError, ResourceError; those already started are ended. TimeoutError if the store is
  /// gone: then none was started.
  explicit WorkerGroup(const WorkerGroupSpec& spec);

  /// Blocks until no process of any worker's tree is left.
  [[nodiscard]] WorkerGroupResult run();

 private:
  void start(int local_rank);
  void start_standbys();
  void wait_for_event();
  void show_the_rest();
  void on_times();
  void on_signals();
  void on_first_failure();
  void on_orders();
  void on_control(WorkerMember& member);
  void on_report(WorkerMember& member, const StubReport& report);
  void on_end(WorkerMember& member, int status, int signal_sent);
  /// Makes every worker's stub send `signal`, and SIGKILL after `grace`; a negative one: never.
  void order(int signal, std::chrono::milliseconds grace);
  void stop(int signal);
  void stop_failed_group();

  const WorkerGroupSpec spec_;
  WorkerGroupResult result_;
  GroupOutput output_;
  MemoryKills memory_kills_;
  std::unique_ptr<KeyWatcher> watcher_;  ///< for the first failure of any node
  HangWatch hangs_;
  std::vector<WorkerMember> members_;
  bool is_stopping_ = false;
  bool is_asked_to_end_ = false;  ///< since the last rank left
  StopTimes times_;
};

}  // namespace lockstep::launch
