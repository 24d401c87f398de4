// SPDX-License-Identifier: Apache-2.0
// `lockstep run --hosts`: derives each host's launcher command from the command line of this process.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "lockstep/launch/hosts.h"

namespace lockstep::apps {

/// The first option in the command line of each launcher that `--hosts` starts.
inline constexpr const char* kOrdersOnInput = "--orders-on-input";

struct HostChoice {
  std::string list;  ///< --hosts
  std::string file;  ///< --hostfile
  std::string ssh;   ///< program and options, as a shell would split them; empty: the system's ssh
};

/// The arguments that the launchers of all hosts share.
struct HostsRun {
  std::vector<std::string> own;      ///< the launcher's arguments, as typed
  std::vector<std::string> program;  ///< program and its arguments
  std::vector<int> signals;
  std::chrono::milliseconds shutdown_timeout{10000};
};

/// The hosts of --hosts or --hostfile; empty if neither is given. Throws: anything parse_hosts() or read_hostfile()
/// throws.
[[nodiscard]] std::vector<HostEntry> chosen_hosts(const HostChoice& choice);

/// Builds the options of run_hosts(). Each host gets its node rank, the rendezvous address (--master-addr, otherwise
/// the first host) and the environment variables of this process that concern the ranks. Throws: UsageError if options
/// contradict the list; DataError if the token file is missing.
[[nodiscard]] HostsOptions hosts_options(const HostChoice& choice, const HostsRun& run);

/// Splits as a shell does, with '...', "..." and \. Throws: UsageError if a quote is unterminated.
[[nodiscard]] std::vector<std::string> split_words(const std::string& text);

}  // namespace lockstep::apps
