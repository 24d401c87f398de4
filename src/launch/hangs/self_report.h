// SPDX-License-Identifier: Apache-2.0
// Asks a rank for the stack of its main thread, using the signal handled by lockstep/base/fault.h.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string_view>

#include "launch/hangs/late_stacks.h"

namespace lockstep::launch {

/// Returns true if a process has a handler for the signal, according to the text of /proc/PID/status. Without a
/// handler, the signal would end the process.
[[nodiscard]] bool catches(std::string_view status, int signal);

/// Sends the signal and waits for the response in `file`, for at most `limit`.
[[nodiscard]] SelfReport ask_for_stack(pid_t pid, const std::filesystem::path& file, std::chrono::milliseconds limit);

}  // namespace lockstep::launch
