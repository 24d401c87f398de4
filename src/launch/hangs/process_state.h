// SPDX-License-Identifier: Apache-2.0
// The kernel's view of a process.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>

#include "lockstep/flight/verdict.h"

namespace lockstep::launch {

/// Reads /proc/PID, or another folder of its form. None: there is no such process.
[[nodiscard]] std::optional<flight::ProcessState> read_process(pid_t pid, const std::filesystem::path& proc = "/proc");

}  // namespace lockstep::launch
