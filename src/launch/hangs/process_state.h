// SPDX-License-Identifier: Apache-2.0
// The kernel's view of a process.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>

#include "lockstep/flight/verdict.h"

namespace lockstep::launch {

/// Reads the state of a process from `proc`, which is /proc except in tests. None if the process does not exist.
[[nodiscard]] std::optional<flight::ProcessState> read_process(pid_t pid, const std::filesystem::path& proc = "/proc");

}  // namespace lockstep::launch
