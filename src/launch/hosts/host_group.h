// SPDX-License-Identifier: Apache-2.0
// The launchers of a run over several hosts, started and watched by one of the hosts as ssh processes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/hosts/host_lines.h"
#include "launch/output/console.h"
#include "launch/signals.h"
#include "launch/worker.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/file_system.h"
#include "lockstep/launch/hosts.h"

namespace lockstep::launch {

/// How a host was lost, according to the exit status of its ssh.
enum class HostLoss : std::uint8_t { kNone, kUnreached, kMissing };

/// Returns kUnreached for 255: ssh could not reach the host, or lost it; kMissing for 127 and 126: it has no launcher.
[[nodiscard]] HostLoss loss_of(int wait_status);

/// The launchers. States: running -> (a signal, or fewer hosts than needed) ending -> gone. Owned by one thread.
class HostGroup {
 public:
  explicit HostGroup(const HostsOptions& options);
  HostGroup(const HostGroup&) = delete;
  HostGroup& operator=(const HostGroup&) = delete;

  /// Blocks until all launchers have ended. Returns the run's exit code.
  int run();

 private:
  struct Member {
    std::unique_ptr<Worker> worker;
    UniqueFd orders;  ///< the launcher's standard input
    bool has_ended = false;
  };

  void start(const HostLauncher& launcher);
  void wait_for_event();
  void read(int host, int stream);
  void on_control(int host);
  void on_end(int host, int wait_status);
  void on_signals();
  void on_time(TimePoint now);
  void send(int number);
  void end_all(TimePoint now);
  void show_the_rest();
  [[nodiscard]] int count_left() const;
  [[nodiscard]] int exit_code() const;

  const HostsOptions& options_;
  SignalGuard signals_;
  Console console_;
  HostLines lines_;
  std::vector<Member> members_;
  std::optional<TimePoint> end_at_;   ///< when the remaining launchers are asked to stop
  std::optional<TimePoint> kill_at_;  ///< when ssh is killed; each launcher then ends, because its input closes
  std::optional<TimePoint> drop_at_;  ///< when the output that is not read by then is discarded
  bool is_asked_to_end_ = false;      ///< a signal that ends the run has arrived
  int end_signal_ = 0;
  std::optional<int> first_failure_;  ///< exit code of the first launcher that failed
  int completed_ = 0;                 ///< number of launchers that ended with 0
  int lost_ = 0;                      ///< number of lost hosts
  std::optional<std::string> loss_;   ///< message about the first lost host
};

}  // namespace lockstep::launch
