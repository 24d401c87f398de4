// SPDX-License-Identifier: Apache-2.0
// Detects whether the kernel killed a process for lack of memory, from the counter of this process's cgroup (version 1
// or 2) and from the kernel's messages, if they are readable.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/base/file_system.h"

namespace lockstep::launch {

class MemoryKills {
 public:
  /// Counts kills from now on. `root` is "/", except in tests.
  explicit MemoryKills(const std::filesystem::path& root = "/");

  /// Returns why SIGKILL ended a process, with advice; "" if memory was not the reason, or the reason is unknown.
  [[nodiscard]] std::string why(pid_t pid);

 private:
  [[nodiscard]] std::optional<std::int64_t> count() const;
  [[nodiscard]] std::string limit_text() const;
  [[nodiscard]] bool kernel_says(pid_t pid) const;

  std::filesystem::path counter_;  // the file with the line "oom_kill N"; empty if there is none
  std::filesystem::path limit_;
  std::optional<std::int64_t> before_;
  UniqueFd messages_;
};

}  // namespace lockstep::launch
