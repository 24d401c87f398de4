// SPDX-License-Identifier: Apache-2.0
// Information from /proc about a process and this machine.
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
  std::uint64_t resident = 0;  ///< resident memory in bytes
};

/// Parses /proc/PID/stat; `tick` is the number of ticks per second.
[[nodiscard]] std::optional<ProcessUse> parse_process(std::string_view stat, double tick, std::uint64_t page);

/// Returns a process's resource use; none if it has ended or is a zombie.
[[nodiscard]] std::optional<ProcessUse> read_process(int pid);

/// Returns {"cores", "busy", "total", "memory", "available", "gpus"}: the processors, their busy and total time so far
/// in seconds, the memory in bytes, and each GPU with name, utilisation and memory. It reads the GPUs at most once
/// every two seconds.
[[nodiscard]] nlohmann::json read_machine_use();

}  // namespace lockstep::dashboard
