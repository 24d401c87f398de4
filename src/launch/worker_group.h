// SPDX-License-Identifier: Apache-2.0
// All workers of one attempt on this node. Its loop watches them, forwards their output and stops them together.
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
  bool has_succeeded = false;  ///< the worker has exited with 0
};

struct WorkerGroupSpec {
  const AgentOptions& options;
  Membership& membership;
  const Round& round;
  const LogFolder& logs;
  const SignalGuard& signals;
  Standbys& standbys;
  std::string path;     ///< path of the program
  int log_attempt = 0;  ///< the attempt's number in the log folder
};

struct WorkerGroupResult {
  std::vector<WorkerEnd> ends;         ///< how the workers ended, in the order in which this was noticed
  int interrupted_by = 0;              ///< signal that asked the agent to stop
  int start_error = 0;                 ///< errno if the program could not be executed
  bool was_asked_to_save = false;      ///< its healthy ranks were stopped to let a node join
  std::optional<FailureRecord> lost;   ///< record of node 0 if the store was lost
  std::optional<FailureRecord> claim;  ///< the first failure, according to the ranks and the store
  std::optional<FailureRecord> found;  ///< the launcher's own finding about a rank of this node, which it reports last
  std::vector<std::string> stacks;     ///< stacks of that rank if it is late, line by line
  std::int64_t last_step = -1;         ///< furthest step that a rank of this node reached; -1 if none
  std::string place;                   ///< the last place of the first rank, " in step 418"; "" if unknown

  /// Returns true if every rank exited with 0.
  [[nodiscard]] bool is_success() const;
};

/// The times, by AwakeClock, of actions that no event triggers.
struct StopTimes {
  std::optional<TimePoint> drop_at = {};        ///< when to discard unread output
  std::optional<TimePoint> stop_at = {};        ///< when to stop the rest, after a rank left or blamed another
  std::optional<TimePoint> stop_again_at = {};  ///< when to send a second SIGTERM
  std::optional<TimePoint> give_up_at = {};     ///< when to give up on processes that SIGKILL has not ended

  /// Returns the earliest of these times; max() if none.
  [[nodiscard]] TimePoint next() const;
};

/// The workers of one attempt. States: running -> (a failure, a signal, or every rank has ended) stopping -> gone. A
/// rank's end is a cause or the consequence of another rank's end (failure.h). A cause is published before the other
/// ranks are stopped, so that they can name it. Owned by the agent's thread.
class WorkerGroup {
 public:
  /// Starts the workers. Throws: IoError, ResourceError, after ending the workers already started; TimeoutError, before
  /// any worker starts, if the store is gone.
  explicit WorkerGroup(const WorkerGroupSpec& spec);

  /// Blocks: until no process of any worker's tree is left.
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
  /// Makes every worker's stub send `signal`, and SIGKILL after `grace`; never if `grace` is negative.
  void order(int signal, std::chrono::milliseconds grace);
  void stop(int signal);
  void stop_failed_group();

  const WorkerGroupSpec spec_;
  WorkerGroupResult result_;
  GroupOutput output_;
  MemoryKills memory_kills_;
  std::unique_ptr<KeyWatcher> watcher_;  ///< watches for the first failure on any node
  HangWatch hangs_;
  std::vector<WorkerMember> members_;
  bool is_stopping_ = false;
  bool is_asked_to_end_ = false;  ///< an order to end arrived before the last rank left
  StopTimes times_;
};

}  // namespace lockstep::launch
