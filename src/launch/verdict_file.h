// SPDX-License-Identifier: Apache-2.0
// Why an attempt ended, beside the logs of its ranks, for `lockstep doctor RUN_DIR`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launch/nodes/messages.h"

namespace lockstep::launch {

/// The "cause" of an attempt whose ranks stopped on request, by a signal or --max-time: none of them failed.
inline constexpr const char* kToldToLeave = "told";

/// Returns the file's text, one JSON object: {"schema": 1, "text", "hint", "cause", "rank", "host", "exit_code" (0: the
/// ranks started again), "then", "time_ns", "stacks" (lines; only where there are some)}. Precondition: the order has a
/// cause, or is graceful.
[[nodiscard]] std::string verdict_json(const Order& order, const std::vector<std::string>& stacks = {});

/// Writes verdict.json into `attempt`, a folder of logs, where the order has a cause or is graceful. It never throws:
/// the console has said the same.
void write_verdict(const Order& order, const std::vector<std::string>& stacks,
                   const std::filesystem::path& attempt) noexcept;

}  // namespace lockstep::launch
