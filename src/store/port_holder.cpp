// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/port_holder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include "lockstep/base/printable.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

struct Listener {
  std::string user;  ///< user ID
  std::string link;  ///< target of the link in /proc for a descriptor of the socket
};

// Adds a file's listeners. A line is "0: 0100007F:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000 USER 0
// INODE ...".
void add_listeners(const char* file, std::uint16_t port, std::vector<Listener>& listeners) {
  const std::string end = fmt::format(":{:04X}", port);
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, local, remote, state, queues, timer, retries, user, timeouts, inode;
    words >> number >> local >> remote >> state >> queues >> timer >> retries >> user >> timeouts >> inode;
    if (state == "0A" && local.ends_with(end)) listeners.push_back({user, fmt::format("socket:[{}]", inode)});
  }
}

bool has_open(const fs::path& process, const std::vector<Listener>& listeners) {
  std::error_code problem;
  for (fs::directory_iterator at(process / "fd", problem), end; !problem && at != end; at.increment(problem)) {
    std::error_code closed;
    const std::string link = fs::read_symlink(at->path(), closed).string();
    const auto is_it = [&](const Listener& listener) { return listener.link == link; };
    if (std::any_of(listeners.begin(), listeners.end(), is_it)) return true;
  }
  return false;
}

}  // namespace

std::string port_holder(std::uint16_t port) {
  std::vector<Listener> listeners;
  add_listeners("/proc/net/tcp", port, listeners);
  add_listeners("/proc/net/tcp6", port, listeners);
  if (listeners.empty()) return "";
  std::error_code problem;
  for (fs::directory_iterator at("/proc", problem), end; !problem && at != end; at.increment(problem)) {
    const std::string pid = at->path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos || !has_open(at->path(), listeners)) continue;
    std::ifstream name_file(at->path() / "comm");
    std::string name;
    std::getline(name_file, name);
    return fmt::format("{} (pid {})", text::printable_line(name), pid);
  }
  return fmt::format("a process of user {}", listeners.front().user);
}

}  // namespace lockstep
