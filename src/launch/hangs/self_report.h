// SPDX-License-Identifier: Apache-2.0
// Asks a rank for the stack of its main thread, by the signal that lockstep/base/fault.h answers.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string_view>

#include "launch/hangs/late_stacks.h"

namespace lockstep::launch {

/// True if a process has a handler for the signal, according to the text of /proc/PID/status. Without one the signal
/// would end it.
[[nodiscard]] bool catches(std::string_view status, int signal);

/// Sends the signal and waits for the answer in `file`, for `limit` at most.
[[nodiscard]] SelfReport ask_for_stack(pid_t pid, const std::filesystem::path& file, std::chrono::milliseconds limit);

}  // namespace lockstep::launch
