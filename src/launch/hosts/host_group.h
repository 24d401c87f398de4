// SPDX-License-Identifier: Apache-2.0
// The launchers of a run over several hosts, as one of the hosts sees them: processes of ssh.
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

/// How a host was lost, by the end of its ssh.
enum class HostLoss : std::uint8_t { kNone, kUnreached, kMissing };

/// 255: ssh could not reach the host, or lost it. 127 and 126: the host has no such launcher.
[[nodiscard]] HostLoss loss_of(int wait_status);

/// States: running -> (a signal, or fewer hosts than needed) ending -> gone. Owned by one thread.
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
  [[nodiscard]] int count_left() const;
  [[nodiscard]] int exit_code() const;

  const HostsOptions& options_;
  SignalGuard signals_;
  Console console_;
  HostLines lines_;
  std::vector<Member> members_;
  std::optional<TimePoint> end_at_;   ///< the remaining launchers are asked to end
  std::optional<TimePoint> kill_at_;  ///< ssh is ended, and each launcher with its input
  int end_signal_ = 0;
  std::optional<int> first_failure_;  ///< a launcher's exit code
  int lost_ = 0;                      ///< hosts
  std::optional<std::string> loss_;   ///< the words on the first of them
};

}  // namespace lockstep::launch
