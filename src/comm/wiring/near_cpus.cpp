// SPDX-License-Identifier: Apache-2.0
#include "comm/wiring/near_cpus.h"

#include <sched.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/whole_number.h"

namespace lockstep::comm {
namespace {

namespace fs = std::filesystem;

std::vector<int> cpus_in(const fs::path& file) {
  constexpr std::uint64_t kPage = 4096;
  try {
    return cpus_of_list(FileSystem::system().read(file, kPage));
  } catch (const Error&) {
    return {};
  }
}

std::vector<int> cpus_of_set(const cpu_set_t& set) {
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

/// A thread that ends before it is bound is skipped.
void bind_all_threads(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  constexpr WholeRange kThreads{.least = 1, .most = std::numeric_limits<pid_t>::max()};
  std::error_code problem;
  for (const fs::directory_entry& thread : fs::directory_iterator("/proc/self/task", problem)) {
    const auto id = parse_whole(thread.path().filename().string(), kThreads);
    if (id) (void)::sched_setaffinity(static_cast<pid_t>(*id), sizeof set, &set);
  }
}

}  // namespace

std::vector<int> cpus_of_list(std::string_view list) {
  constexpr WholeRange kCpus{.least = 0, .most = CPU_SETSIZE - 1};
  std::vector<int> cpus;
  list = list.substr(0, list.find('\n'));
  while (!list.empty()) {
    const std::string_view part = list.substr(0, list.find(','));
    list.remove_prefix(std::min(part.size() + 1, list.size()));
    const std::size_t dash = part.find('-');
    const auto first = parse_whole(part.substr(0, dash), kCpus);
    const auto last = dash == std::string_view::npos ? first : parse_whole(part.substr(dash + 1), kCpus);
    if (!first || !last) return {};
    for (auto cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<int>(cpu));
  }
  std::ranges::sort(cpus);
  return cpus;
}

std::vector<int> cpus_to_keep_to(const CpuChoice& choice) {
  if (choice.allowed != choice.online) return {};
  std::vector<int> both;
  std::ranges::set_intersection(choice.allowed, choice.near, std::back_inserter(both));
  return both == choice.allowed ? std::vector<int>{} : both;
}

int keep_near(const std::string& pci_address, const fs::path& root) {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 0;
  const std::vector<int> cpus =
      cpus_to_keep_to({.allowed = cpus_of_set(set),
                       .online = cpus_in(root / "sys/devices/system/cpu/online"),
                       .near = cpus_in(root / "sys/bus/pci/devices" / pci_address / "local_cpulist")});
  if (!cpus.empty()) bind_all_threads(cpus);
  return static_cast<int>(cpus.size());
}

}  // namespace lockstep::comm
