// SPDX-License-Identifier: Apache-2.0
// Checks the resources that an agent and its ranks need before anything starts, so that a shortage causes a single
// error instead of half a group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/launch/agent.h"

namespace lockstep::launch {

/// Returns the number of file descriptors that this agent will need at once if `open_now` are open already.
[[nodiscard]] std::uint64_t files_needed(const AgentOptions& options, std::uint64_t open_now);

/// Returns the number of file descriptors that run_hosts() will need at once for `hosts` hosts if `open_now` are open
/// already.
[[nodiscard]] std::uint64_t files_needed_for_hosts(std::size_t hosts, std::uint64_t open_now);

struct FileLimit {
  std::uint64_t soft = 0;
  std::uint64_t hard = 0;
};

/// Returns the soft limit to set: the hard limit, but at most 65,536 unless more are needed, because programs that
/// close or count all possible descriptors are slow with a larger limit. Never below the current limit. Pure.
/// Throws: ResourceError if the hard limit is below `needed`.
[[nodiscard]] std::uint64_t choose_file_limit(const FileLimit& limit, std::uint64_t needed);

/// Returns the reason why the kernel may have killed a rank: its limit on CPU time; empty if there is no limit.
[[nodiscard]] std::string cpu_limit_words();

/// Raises this process's soft limit on open files, which its workers inherit. Throws: ResourceError.
void raise_file_limit(const AgentOptions& options);

/// Does the same for run_hosts(), which starts a launcher on each of `hosts` hosts. Throws: ResourceError.
void raise_file_limit_for_hosts(std::size_t hosts);

/// Runs `body`, turning a failure to start a thread or to allocate memory into a ResourceError.
int with_shortages_named(const std::function<int()>& body);

}  // namespace lockstep::launch
