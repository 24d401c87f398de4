// SPDX-License-Identifier: Apache-2.0
#include "launch/hangs/process_state.h"

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

#include "lockstep/base/process_stat.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Returns the value of a line such as "VmSwap: 1024 kB" in bytes.
std::uint64_t kilobytes_of(const std::string& status, const std::string& name) {
  const auto at = status.find("\n" + name + ":");
  if (at == std::string::npos) return 0;
  std::istringstream rest(status.substr(at + name.size() + 2));
  std::uint64_t value = 0;
  rest >> value;
  return value << 10U;
}

// Returns the last number of "NSpid:\t4711\t12", the process's id in its own namespace.
pid_t innermost_number(const std::string& status) {
  const auto at = status.find("\nNSpid:");
  if (at == std::string::npos) return 0;
  std::istringstream line(status.substr(at + 7, status.find('\n', at + 1) - at - 7));
  pid_t number = 0;
  while (line >> number) continue;
  return number;
}

// Returns the process's folder. If /proc belongs to an outer pid namespace (unshare --pid without --mount-proc), `pid`
// refers to another process there.
fs::path folder_of(pid_t pid, const fs::path& proc) {
  std::error_code problem;
  const fs::path self = fs::read_symlink(proc / "self", problem);
  if (problem || self == std::to_string(::getpid())) return proc / std::to_string(pid);
  const fs::path own = fs::read_symlink(proc / "self/ns/pid", problem);
  for (fs::directory_iterator at(proc, problem), end; !problem && at != end; at.increment(problem)) {
    std::error_code hidden;
    if (fs::read_symlink(at->path() / "ns/pid", hidden) != own || hidden) continue;
    if (innermost_number(text_of(at->path() / "status")) == pid) return at->path();
  }
  return proc / "none";
}

}  // namespace

std::optional<flight::ProcessState> read_process(pid_t pid, const std::filesystem::path& proc) {
  const auto folder = folder_of(pid, proc);
  const std::string stat = text_of(folder / "stat");
  const std::string_view fields = fields_of_stat(stat);
  if (fields.empty()) return std::nullopt;
  const std::string status = text_of(folder / "status");
  flight::ProcessState process;
  process.state = fields.front();
  process.has_ended = is_state_of_ended(process.state);
  process.waits_in = text_of(folder / "wchan");
  if (process.waits_in == "0") process.waits_in.clear();
  process.resident = kilobytes_of(status, "VmRSS");
  process.swapped = kilobytes_of(status, "VmSwap");
  return process;
}

}  // namespace lockstep::launch
