// SPDX-License-Identifier: Apache-2.0
// All workers of one attempt on this node: the loop that watches them, carries their output and stops them together.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/failure.h"
#include "launch/group_output.h"
#include "launch/log_folder.h"
#include "launch/lost_node.h"
#include "launch/rendezvous.h"
#include "launch/signals.h"
#include "launch/worker.h"
#include "lockstep/base/clock.h"

namespace lockstep::launch {

struct WorkerGroupSpec {
  const AgentOptions& options;
  const Meeting& meeting;
  const LogFolder& logs;
  const SignalGuard& signals;
  std::string path;       ///< path of the program
  int restart_count = 0;  ///< what the workers are told
  int log_attempt = 0;    ///< the number in the log folder
};

struct WorkerGroupResult {
  std::vector<WorkerEnd> ends;  ///< in the order in which they were noticed
  int interrupted_by = 0;       ///< the signal that told the agent to stop
  int start_error = 0;          ///< errno where the program could not be executed
  bool has_remote_failure = false;
  std::optional<LostNode> lost;
  std::optional<FailureRecord> claim;  ///< the first failure, as far as ranks, agents and the store know

  [[nodiscard]] bool is_success() const;
};

/// When something has to happen that nobody announces.
struct StopTimes {
  std::optional<TimePoint> drop_at = {};        ///< what nobody has read by then is not shown
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
  /// Starts the workers. Throws: IoError, ResourceError; those already started are ended.
  explicit WorkerGroup(const WorkerGroupSpec& spec);

  /// Blocks until no process of any worker's tree is left.
  [[nodiscard]] WorkerGroupResult run();

 private:
  struct Member {
    std::unique_ptr<Worker> worker;
    std::unique_ptr<RankLog> log;
    pid_t pid = 0;
    bool has_ended = false;
  };

  void start(int local_rank);
  void wait_for_event();
  void show_the_rest();
  /// Where ranks here only say that a peer is gone, waits until the store says which node it was.
  void await_cause();
  void on_times();
  void on_signals();
  void on_watcher();
  void on_lost_node();
  void on_control(Member& member);
  void on_report(Member& member, const StubReport& report);
  void on_end(Member& member, int status, int signal_sent);
  /// Has every worker's stub send `signal`, and SIGKILL after `grace`; a negative one: never.
  void order(int signal, std::chrono::milliseconds grace);
  void stop(int signal);
  void stop_failed_group();

  const WorkerGroupSpec spec_;
  WorkerGroupResult result_;
  GroupOutput output_;
  std::unique_ptr<KeyWatcher> watcher_;       ///< for failures of other nodes
  std::unique_ptr<KeyWatcher> lost_watcher_;  ///< for nodes that are lost
  std::vector<Member> members_;
  bool is_stopping_ = false;
  bool is_told_to_end_ = false;  ///< since the last rank left
  StopTimes times_;
};

}  // namespace lockstep::launch
