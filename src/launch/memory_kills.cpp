// SPDX-License-Identifier: Apache-2.0
#include "launch/memory_kills.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>

#include "lockstep/base/text.h"
#include "lockstep/base/whole_number.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNext =
    "\nnext  use less memory: a smaller batch_size, fewer loader workers or ranks on this node; or raise the limit";

constexpr WholeRange kAny{0, std::numeric_limits<std::int64_t>::max()};

// The folder of this process's memory cgroup, and the names of its files.
struct Files {
  fs::path counter;
  fs::path limit;
};

// A line in /proc/self/cgroup is "4:memory:/a/b" (version 1) or "0::/a/b" (version 2).
Files find_files(const fs::path& root) {
  std::ifstream lines(root / "proc/self/cgroup");
  const fs::path mount = root / "sys/fs/cgroup";
  std::error_code problem;
  Files found;
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string below = line.substr(std::min(second + 2, line.size()));
    // Inside a container, the path may be the one on the host; in that case, the mount itself is this process's cgroup.
    for (const fs::path& folder : {mount / below, mount}) {
      if (controllers == ",," && fs::exists(folder / "memory.events", problem)) {
        return {folder / "memory.events", folder / "memory.max"};
      }
    }
    for (const fs::path& folder : {mount / "memory" / below, mount / "memory"}) {
      if (controllers.find(",memory,") != std::string::npos && fs::exists(folder / "memory.oom_control", problem)) {
        found = {folder / "memory.oom_control", folder / "memory.limit_in_bytes"};
        break;
      }
    }
  }
  return found;
}

}  // namespace

MemoryKills::MemoryKills(const fs::path& root) {
  const Files files = find_files(root);
  counter_ = files.counter;
  limit_ = files.limit;
  before_ = count();
  messages_ = UniqueFd(::open((root / "dev/kmsg").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (messages_.valid()) ::lseek(messages_.get(), 0, SEEK_END);
}

std::optional<std::int64_t> MemoryKills::count() const {
  std::ifstream file(counter_);
  for (std::string word, number; file >> word >> number;) {
    if (word == "oom_kill") return parse_whole(number, kAny);
  }
  return std::nullopt;
}

std::string MemoryKills::limit_text() const {
  std::ifstream file(limit_);
  std::string word;
  file >> word;
  constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;
  const auto bytes = parse_whole(word, kAny);
  return bytes && *bytes < kNoLimit ? fmt::format(" ({})", text::bytes(static_cast<std::uint64_t>(*bytes))) : "";
}

// Returns true if the kernel's messages name the process. One read returns one message.
bool MemoryKills::kernel_says(pid_t pid) const {
  const std::string wanted = fmt::format("Killed process {} (", pid);
  char message[8192];
  for (;;) {
    const ssize_t size = ::read(messages_.get(), message, sizeof message);
    if (size < 0 && (errno == EINTR || errno == EPIPE)) continue;  // EPIPE: the oldest messages were overwritten
    if (size <= 0) return false;
    if (std::string_view(message, static_cast<std::size_t>(size)).find(wanted) != std::string_view::npos) return true;
  }
}

std::string MemoryKills::why(pid_t pid) {
  const auto now = count();
  const bool is_of_group = now && before_ && *now > *before_;
  before_ = now;
  if (is_of_group) {
    return fmt::format("the kernel killed it: it exceeded the memory limit of this container or job{}{}", limit_text(),
                       kNext);
  }
  if (messages_.valid() && kernel_says(pid)) {
    return fmt::format("the kernel killed it: this machine was out of memory{}", kNext);
  }
  return "";
}

}  // namespace lockstep::launch
