// SPDX-License-Identifier: Apache-2.0
// The kernel's counters of this process and its host, for the step report. They are read once per epoch, never during a
// step.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/view/step_report.h"

namespace lockstep::train {

/// Monotonic counters. Units: seconds, bytes.
struct ProcessCounters {
  double cpu = 0;               ///< CPU time of all threads
  std::int64_t read_bytes = 0;  ///< bytes read from files, including reads from the kernel's cache
  std::int64_t preempted = 0;   ///< number of times the calling thread was preempted
};
[[nodiscard]] ProcessCounters read_counters();

/// The traffic on this process's network interfaces since the host started.
struct NetworkCounters {
  std::string network;  ///< identifies the network; equal for processes that share the interfaces
  std::vector<view::Traffic> traffic;
  std::int64_t resent = 0;  ///< retransmitted TCP segments
};
[[nodiscard]] NetworkCounters read_network_counters(const std::string& host);
/// Returns the traffic between two readings; interfaces without traffic are omitted.
[[nodiscard]] NetworkCounters passed_since(const NetworkCounters& before, const NetworkCounters& now);

/// Current memory use and available cores. Units: bytes.
struct ProcessState {
  double cores = 0;              ///< number of cores the process may use
  std::string cpus;              ///< numbers of the cores: "0-3"
  std::int64_t resident = 0;     ///< the largest resident set so far
  std::int64_t shared = 0;       ///< shared memory in the resident set
  std::int64_t host_memory = 0;  ///< memory of the host, or the cgroup's limit; 0 if unknown
  std::int64_t host_free = 0;
};
[[nodiscard]] ProcessState read_state();

/// Adds up the time that threads waited for a core.
class DelayCounter {
 public:
  /// Returns the seconds that `threads` (as in /proc/self/task) have waited since the previous call. Threads that have
  /// ended are not counted; a thread that is not among `threads` counts as new in the next call.
  [[nodiscard]] double since_last(const std::vector<int>& threads);

 private:
  std::map<int, std::int64_t> last_;  ///< nanoseconds, by thread
};

/// Returns the value of `key` ("rchar:") in the text of a file in /proc; none if the key is missing.
[[nodiscard]] std::optional<std::int64_t> number_of(std::string_view text, std::string_view key);
/// Returns the interfaces in the text of /proc/net/dev, without loopback and without interfaces that only repeat the
/// traffic of another interface: bridges, and the copies created by containers and traffic shapers.
[[nodiscard]] std::vector<view::Traffic> parse_interfaces(std::string_view text);
/// Returns RetransSegs in the text of /proc/net/snmp; 0 if it is missing.
[[nodiscard]] std::int64_t parse_resent(std::string_view text);
/// Returns how long a thread was runnable without a core, in nanoseconds, from its schedstat; none if it is missing.
[[nodiscard]] std::optional<std::int64_t> delay_of(std::string_view schedstat);

}  // namespace lockstep::train
