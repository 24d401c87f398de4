// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/control_group.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// Version 1 reports a huge number of pages for "no limit".
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60U;

std::optional<std::uint64_t> group_number(const fs::path& file) {
  std::ifstream in(file);
  std::uint64_t value = 0;
  if (in >> value && value < kNoLimit) return value;
  return std::nullopt;  // "max", "-1", or no such file
}

std::uint64_t stat_number(const fs::path& file, const std::string& name) {
  std::ifstream in(file);
  std::string key;
  std::uint64_t value = 0;
  while (in >> key >> value) {
    if (key == name) return value;
  }
  return 0;
}

std::uint64_t used_memory(const fs::path& current, const fs::path& stat, const std::string& cached) {
  const std::uint64_t used = group_number(current).value_or(0);
  return used - std::min(used, stat_number(stat, cached));
}

void take_cores(std::optional<double>& cores, std::uint64_t quota, std::uint64_t period) {
  if (quota == 0 || period == 0) return;
  const double found = static_cast<double>(quota) / static_cast<double>(period);
  cores = std::min(cores.value_or(found), found);
}

void read_cores(const fs::path& group, bool is_second, GroupLimits& limits) {
  std::uint64_t quota = 0;
  std::uint64_t period = 0;
  if (is_second) {
    std::ifstream in(group / "cpu.max");
    if (in >> quota >> period) take_cores(limits.cores, quota, period);
    return;
  }
  quota = group_number(group / "cpu.cfs_quota_us").value_or(0);
  period = group_number(group / "cpu.cfs_period_us").value_or(0);
  take_cores(limits.cores, quota, period);
}

void read_memory(const fs::path& group, bool is_second, GroupLimits& limits) {
  const auto limit = group_number(group / (is_second ? "memory.max" : "memory.limit_in_bytes"));
  if (!limit || (limits.memory && *limits.memory <= *limit)) return;
  limits.memory = limit;
  limits.memory_used = is_second
                           ? used_memory(group / "memory.current", group / "memory.stat", "inactive_file")
                           : used_memory(group / "memory.usage_in_bytes", group / "memory.stat", "total_inactive_file");
}

void read_tasks(const fs::path& group, bool /*is_second*/, GroupLimits& limits) {
  const auto limit = group_number(group / "pids.max");
  if (!limit || (limits.tasks && *limits.tasks <= *limit)) return;
  limits.tasks = limit;
  limits.tasks_used = group_number(group / "pids.current").value_or(0);
}

using Reader = void (*)(const fs::path&, bool, GroupLimits&);

// Reads the group and all groups above it. In a container the path may not exist, or it may lead out of the container
// ("/../job"). In that case the root is the container's own group.
void read_upwards(const fs::path& root, std::string path, bool is_second, Reader read, GroupLimits& limits) {
  if (path.starts_with("/..")) path = "/";
  for (;;) {
    read(root / fs::path(path).relative_path(), is_second, limits);
    if (path.empty() || path == "/") return;
    path.erase(path.rfind('/'));
  }
}

// Returns the folder of a controller. Version 1 mounts each controller, or several together ("cpu,cpuacct"), in a
// folder with its name.
fs::path mount_of(const fs::path& groups, const std::string& controllers, const std::string& name) {
  std::error_code missing;
  return fs::exists(groups / name, missing) ? groups / name : groups / controllers;
}

bool has_controller(const std::string& list, const std::string& name) {
  return ("," + list + ",").find("," + name + ",") != std::string::npos;
}

}  // namespace

GroupLimits read_control_group(const fs::path& root) {
  GroupLimits limits;
  const fs::path groups = root / "sys/fs/cgroup";
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string id;
    std::string controllers;
    std::string path;
    if (!std::getline(words, id, ':') || !std::getline(words, controllers, ':') || !std::getline(words, path)) continue;
    if (path.empty() || path.front() != '/') continue;
    const bool is_second = controllers.empty();
    const auto read = [&](const char* name, Reader reader) {
      if (is_second) read_upwards(groups, path, true, reader, limits);
      if (has_controller(controllers, name)) {
        read_upwards(mount_of(groups, controllers, name), path, false, reader, limits);
      }
    };
    read("cpu", read_cores);
    read("memory", read_memory);
    read("pids", read_tasks);
  }
  return limits;
}

int affinity_cpus() {
  // Machines with more than 1,024 CPUs need a larger set than cpu_set_t.
  for (int capacity = 1024; capacity <= 1 << 20; capacity *= 4) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(capacity), [](cpu_set_t* p) { CPU_FREE(p); });
    if (set && ::sched_getaffinity(0, CPU_ALLOC_SIZE(capacity), set.get()) == 0) {
      return std::max(1, CPU_COUNT_S(CPU_ALLOC_SIZE(capacity), set.get()));
    }
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int usable_cpus(const fs::path& root) {
  const int cpus = affinity_cpus();
  const auto quota = read_control_group(root).cores;
  return quota ? std::clamp(static_cast<int>(*quota), 1, cpus) : cpus;
}

}  // namespace lockstep
