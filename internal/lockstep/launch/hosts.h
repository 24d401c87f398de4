// SPDX-License-Identifier: Apache-2.0
// Starts a run across several hosts from one of them, with a launcher on each, through ssh. Does not use libtorch.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep {

/// One host of a list.
struct HostEntry {
  std::string name;  ///< name for ssh: `HOST` or `USER@HOST`
  int slots = 0;     ///< number of ranks on the host; 0: not given
};

/// Reads "a,user@b:8,[fe80::1]:4": a list of hosts, each optionally followed by a colon and its number of ranks.
/// Throws: UsageError.
[[nodiscard]] std::vector<HostEntry> parse_hosts(const std::string& list);

/// Reads a file with one host per line: "a", "b slots=8" (Open MPI, DeepSpeed) or "b:8" (MPICH); '#' begins a comment.
/// Throws: DataError if it cannot be read or has no host; UsageError with the line's number.
[[nodiscard]] std::vector<HostEntry> read_hostfile(const std::filesystem::path& file);

/// Returns the name of `host` without the user, by which other hosts reach it.
[[nodiscard]] std::string address_of(const HostEntry& host);

/// A launcher to start on a host.
struct HostLauncher {
  HostEntry host;                  ///< the host to start it on
  std::vector<std::string> words;  ///< program, which calls obey_input(), and arguments
};

/// The launchers that run_hosts() starts, and how the run ends.
struct HostsOptions {
  std::vector<HostLauncher> launchers;  ///< one launcher for each host
  std::vector<std::string> ssh;         ///< the program that reaches a host, with its options; host and command follow
  int min_hosts = 0;                    ///< smallest number of hosts; the run ends if fewer are left
  std::filesystem::path folder;         ///< the working directory of each launcher
  std::vector<std::pair<std::string, std::string>> environment = {};  ///< the launchers' variables
  std::string token;                                                  ///< the first line that each launcher reads
  std::chrono::milliseconds shutdown_timeout{10000};                  ///< time between SIGTERM and SIGKILL
  std::vector<int> signals;                                           ///< signals that are passed on to every launcher
};

/// Starts a launcher on every host, joins their output, passes signals on, and returns the run's exit code: the code of
/// the first launcher that failed, 75 if hosts were lost and no launcher failed, 128 + n after signal n. If `min_hosts`
/// is below the number of hosts, the code is 0 if at least that many launchers ended with 0. This machine's launcher
/// does not need ssh. Lines get their host's name as a prefix; a message from several launchers is shown once.
///
/// It raises this process's soft limit on open files, which the launcher on this machine and each ssh inherit.
/// Blocks:      until every launcher has ended. Each launcher ends when its standard input closes.
/// Thread-safe: no; call it from one thread.
/// Throws:      UsageError if ssh is not found, or if `environment` is larger than a pipe; ResourceError if no process
///              can be started, or if the hard limit on open files is too low for the hosts.
[[nodiscard]] int run_hosts(const HostsOptions& options);

/// For a launcher that run_hosts() started. Reads the token, the first line of standard input, then NAME=VALUE lines,
/// which it puts into the environment, up to an empty line. From then on it sends this process each signal whose name
/// arrives as a line, and SIGTERM at the end of the input. Standard input becomes /dev/null. Call it once, before
/// anything reads the environment and before other threads start. Returns the token. Blocks: until the empty line has
/// arrived. Throws: UsageError if the input ends before that.
[[nodiscard]] std::string obey_input();

}  // namespace lockstep

#pragma GCC visibility pop
