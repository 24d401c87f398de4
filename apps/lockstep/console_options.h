// SPDX-License-Identifier: Apache-2.0
// Parses torchrun's options for the console and for signals. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "lockstep/launch/agent.h"

namespace lockstep::apps {

/// Reads the value of --tee or --redirects: "3", or "0:1,1:3". Throws: UsageError that names the option and the
/// expected form.
[[nodiscard]] StreamsByRank streams_of(const std::string& option, const std::string& text);

/// Reads "0,2". Throws: UsageError.
[[nodiscard]] std::vector<int> local_ranks_of(const std::string& text);

/// Reads "SIGTERM,SIGINT". Throws: UsageError with the known names.
[[nodiscard]] std::vector<int> signals_of(const std::string& text);

/// Returns `text`. Throws: UsageError if it has a field other than ${role_name}, ${local_rank} and ${rank}.
[[nodiscard]] std::string prefix_of(const std::string& text);

}  // namespace lockstep::apps
