// SPDX-License-Identifier: Apache-2.0
// The kernel's counters of this process and its host, for the step report. Read once an epoch, never in a step.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/view/step_report.h"

namespace lockstep::train {

/// Counters that only grow. Units: seconds, bytes.
struct ProcessCounters {
  double cpu = 0;               ///< CPU time of all threads
  std::int64_t read_bytes = 0;  ///< read from files, also out of the kernel's cache
  std::int64_t preempted = 0;   ///< how often the calling thread lost its core
};
[[nodiscard]] ProcessCounters read_counters();

/// The traffic on the interfaces of this process's network since the host started.
struct NetworkCounters {
  std::string network;  ///< the same for processes that share the interfaces
  std::vector<view::Traffic> traffic;
  std::int64_t resent = 0;  ///< TCP segments
};
[[nodiscard]] NetworkCounters read_network_counters(const std::string& host);
/// Returns the traffic between two readings; interfaces that carried nothing are left out.
[[nodiscard]] NetworkCounters passed_since(const NetworkCounters& before, const NetworkCounters& now);

/// The memory and the cores at present. Units: bytes.
struct ProcessState {
  double cores = 0;              ///< that the process may use
  std::string cpus;              ///< their numbers: "0-3"
  std::int64_t resident = 0;     ///< the largest resident set so far
  std::int64_t shared = 0;       ///< shared memory in the resident set
  std::int64_t host_memory = 0;  ///< memory of the host, or the limit of the control group; 0: unknown
  std::int64_t host_free = 0;
};
[[nodiscard]] ProcessState read_state();

/// Adds up how long threads waited for a core.
class DelayCounter {
 public:
  /// Returns the seconds that `threads` (as in /proc/self/task) have waited since the call before. A thread that has
  /// ended counts no longer.
  [[nodiscard]] double since_last(const std::vector<int>& threads);

 private:
  std::map<int, std::int64_t> last_;  ///< nanoseconds, by thread
};

/// Returns the value of `key` ("rchar:") in the lines of a file of /proc; none if it has none.
[[nodiscard]] std::optional<std::int64_t> number_of(std::string_view text, std::string_view key);
/// Returns the interfaces in the text of /proc/net/dev, without loopback and those that only repeat the traffic of
/// another one: bridges, and the copies that containers and traffic shapers make.
[[nodiscard]] std::vector<view::Traffic> parse_interfaces(std::string_view text);
/// Returns RetransSegs of the text of /proc/net/snmp; 0 if it is missing.
[[nodiscard]] std::int64_t parse_resent(std::string_view text);
/// Returns the nanoseconds that a thread was ready and had no core, from its schedstat; none if that has none.
[[nodiscard]] std::optional<std::int64_t> delay_of(std::string_view schedstat);

}  // namespace lockstep::train
