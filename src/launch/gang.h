// SPDX-License-Identifier: Apache-2.0
// All workers of one attempt on this node: the loop that watches them, carries their output and stops them together.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/console.h"
#include "launch/failure.h"
#include "launch/log_folder.h"
#include "launch/rendezvous.h"
#include "launch/signals.h"
#include "launch/worker.h"
#include "lockstep/base/clock.h"

namespace lockstep::launch {

struct GangSpec {
  const AgentOptions& options;
  const Meeting& meeting;
  const LogFolder& logs;
  const SignalGuard& signals;
  std::string path;       ///< of the program
  int restart_count = 0;  ///< what the workers are told
  int log_attempt = 0;    ///< the number in the log folder
};

struct GangResult {
  std::vector<WorkerEnd> ends;  ///< in the order in which they were noticed
  int interrupted_by = 0;       ///< the signal that told the agent to stop
  int start_error = 0;          ///< errno where the program could not be executed
  bool has_remote_failure = false;
  std::optional<FailureClaim> claim;

  [[nodiscard]] bool is_success() const;
};

class Gang {
 public:
  /// Starts the workers. Throws: IoError, ResourceError; those already started are ended.
  explicit Gang(const GangSpec& spec);

  /// Blocks until no process of any worker's tree is left.
  [[nodiscard]] GangResult run();

 private:
  struct Member {
    std::unique_ptr<Worker> worker;
    std::unique_ptr<RankLog> log;
    pid_t pid = 0;
    bool has_ended = false;
  };

  void start(int local_rank);
  [[nodiscard]] std::vector<std::string> environment_of(int local_rank, const RankLog& log) const;
  [[nodiscard]] Channel channel_of(int rank, int stream) const;

  [[nodiscard]] int prefix_columns() const;

  void wait_for_event();
  void show_the_rest();
  [[nodiscard]] bool more_errors_arrive(const Worker& worker) const;
  [[nodiscard]] int timeout_ms() const;
  void on_times();
  void on_signals();
  void on_watcher();
  void on_control(Member& member);
  void on_report(Member& member, const StubReport& report);
  void on_end(Member& member, int status, int signal_sent);
  void read_output(Member& member, int stream, bool to_the_end);
  void close_streams(Member& member);
  void resize_terminals();

  void publish(const WorkerEnd& end);
  void stop(int signal);
  void pass_on(int signal);
  void stop_failed_group();
  void kill();
  [[nodiscard]] bool is_any_left() const;
  [[nodiscard]] bool is_local(int rank) const;

  const GangSpec spec_;
  GangResult result_;
  Console console_;
  MuxOptions mux_options_;
  LineMux mux_;
  std::unique_ptr<KeyWatcher> watcher_;  // for failures of other nodes
  std::vector<Member> members_;
  bool is_stopping_ = false;
  std::optional<TimePoint> drop_at_;  // what nobody has read by then is not shown
  bool is_told_to_end_ = false;       // since the last rank left
  std::optional<TimePoint> stop_at_;
  std::optional<TimePoint> stop_again_at_;
  std::optional<TimePoint> give_up_at_;
  TimePoint last_output_{};
};

}  // namespace lockstep::launch
