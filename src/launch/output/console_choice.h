// SPDX-License-Identifier: Apache-2.0
// Which lines of which ranks reach the console, as torchrun's --redirects, --tee and --local-ranks-filter say. Pure.
#pragma once

#include <string>

#include "lockstep/launch/agent.h"

namespace lockstep::launch {

/// True where `stream` (0 stdout, 1 stderr) of a local rank is shown on the console. The log files have everything.
[[nodiscard]] bool is_on_console(const ConsoleChoice& choice, int local_rank, int stream);

/// Returns what stands before a line: `text` with ${role_name}, ${local_rank} and ${rank} filled in.
[[nodiscard]] std::string fill_prefix(const std::string& text, const std::string& role, int local_rank, int rank);

}  // namespace lockstep::launch
