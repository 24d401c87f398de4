// SPDX-License-Identifier: Apache-2.0
// The facts of /proc about a process and about this machine.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::dashboard {

struct ProcessUse {
  char state = '?';            ///< R, S, D, T, Z, ...
  double cpu_seconds = 0;      ///< CPU time of all its threads
  std::uint64_t resident = 0;  ///< bytes
};

/// Parses /proc/PID/stat; `tick` is the number of ticks of a second.
[[nodiscard]] std::optional<ProcessUse> parse_process(std::string_view stat, double tick, std::uint64_t page);

/// None if it has ended. A zombie has ended too.
[[nodiscard]] std::optional<ProcessUse> read_process(int pid);

/// Returns {"cores", "busy", "total", "memory", "available", "gpus"}: processors, their time so far in seconds, memory
/// in bytes, and each GPU with its name, share and memory. It reads the GPUs at most once in two seconds.
[[nodiscard]] nlohmann::json read_machine_use();

}  // namespace lockstep::dashboard
