// SPDX-License-Identifier: Apache-2.0
#include "launch/limits.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <new>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/resources.h"
#include "lockstep/base/text.h"

namespace lockstep::launch {
namespace {

std::uint64_t count_open() {
  std::error_code problem;
  std::filesystem::directory_iterator entries("/proc/self/fd", problem);
  if (problem) return 3;
  return static_cast<std::uint64_t>(std::distance(std::filesystem::begin(entries), std::filesystem::end(entries)));
}

constexpr std::uint64_t kWhileOneStarts = 12;  // the other ends and the stub's copies

void raise_file_limit_to(std::uint64_t needed) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const std::uint64_t wanted = choose_file_limit({.soft = limit.rlim_cur, .hard = limit.rlim_max}, needed);
  if (wanted == limit.rlim_cur) return;
  limit.rlim_cur = wanted;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

std::uint64_t files_needed(const AgentOptions& options, std::uint64_t open_now) {
  constexpr std::uint64_t kOfARank = 5;  // a socket to its stub, two streams, two log files
  constexpr std::uint64_t kOwn = 13;  // store and client, signals, a watcher, the log folder's lock, files being read
  constexpr std::uint64_t kInTheStore = 3;  // a rank's connections to the store
  const auto here = static_cast<std::uint64_t>(options.processes);
  const std::uint64_t served = options.node_rank <= 0 ? here * static_cast<std::uint64_t>(options.nodes) : 0;
  return open_now + kOfARank * here + kWhileOneStarts + kOwn + kInTheStore * served;
}

std::uint64_t files_needed_for_hosts(std::size_t hosts, std::uint64_t open_now) {
  constexpr std::uint64_t kOfAHost = 4;  // a socket to the stub of its ssh, two streams, the orders
  constexpr std::uint64_t kOwn = 6;      // signals, and files being read
  return open_now + kOfAHost * static_cast<std::uint64_t>(hosts) + kWhileOneStarts + kOwn;
}

std::uint64_t choose_file_limit(const FileLimit& limit, std::uint64_t needed) {
  constexpr std::uint64_t kPlenty = 65'536;
  if (limit.hard < needed) {
    throw ResourceError(fmt::format("{} open files are allowed here, but this launcher needs {}",
                                    text::thousands(static_cast<std::int64_t>(limit.hard)),
                                    text::thousands(static_cast<std::int64_t>(needed))),
                        "raise the hard limit (ulimit -Hn; /etc/security/limits.conf, LimitNOFILE= for a service, "
                        "--ulimit nofile= for a container), or start fewer ranks");
  }
  return std::max(limit.soft, std::min(limit.hard, std::max(kPlenty, needed)));
}

std::string cpu_limit_words() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_CPU, &limit) != 0 || limit.rlim_max == RLIM_INFINITY) return "";
  return fmt::format(
      "the kernel may have killed it: each rank has a limit on CPU time, {} (ulimit -t)\nnext  raise the "
      "limit, or the CPU time of the job",
      text::duration(static_cast<double>(limit.rlim_max)));
}

void raise_file_limit(const AgentOptions& options) { raise_file_limit_to(files_needed(options, count_open())); }

void raise_file_limit_for_hosts(std::size_t hosts) { raise_file_limit_to(files_needed_for_hosts(hosts, count_open())); }

int with_shortages_named(const std::function<int()>& body) {
  try {
    return body();
  } catch (const std::system_error& problem) {
    if (!is_shortage(problem.code().value())) throw;
    throw shortage_error(fmt::format("continue as a launcher: {}", problem.what()), problem.code().value());
  } catch (const std::bad_alloc&) {
    throw shortage_error("continue as a launcher", ENOMEM);
  }
}

}  // namespace lockstep::launch
