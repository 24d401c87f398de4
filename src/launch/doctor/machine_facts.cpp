// SPDX-License-Identifier: Apache-2.0
// System facts about processors, memory, limits, clocks and GPUs.
#include "launch/doctor/machine_facts.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "lockstep/base/cuda_library.h"
#include "lockstep/base/env.h"
#include "lockstep/base/gpu_devices.h"
#include "lockstep/launch/gpus.h"
#include "lockstep/launch/processes.h"
#include "lockstep/view/banner.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;

std::uint64_t kilobytes_in(const std::string& text, const std::string& name) {
  const auto at = text.find("\n" + name + ":");
  if (at == std::string::npos) return 0;
  std::istringstream rest(text.substr(at + name.size() + 2));
  std::uint64_t value = 0;
  rest >> value;
  return value << 10U;
}

std::string file_text(const char* file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

int file_number(const char* file) {
  std::ifstream in(file);
  int value = 0;
  in >> value;
  return value;
}

std::optional<std::uint64_t> resource_limit(__rlimit_resource resource, bool hard) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return std::nullopt;
  const rlim_t value = hard ? limit.rlim_max : limit.rlim_cur;
  return value == RLIM_INFINITY ? std::nullopt : std::optional<std::uint64_t>(value);
}

bool has_entries(const char* folder) {
  std::error_code problem;
  const fs::directory_iterator entries(folder, problem);
  return !problem && entries != fs::directory_iterator();
}

std::int64_t nanoseconds(const timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

double reading_cost_ns() {
  constexpr int kReadings = 10'000;
  timespec first{};
  timespec last{};
  ::clock_gettime(CLOCK_MONOTONIC, &first);
  for (int i = 0; i < kReadings; ++i) ::clock_gettime(CLOCK_MONOTONIC, &last);
  return static_cast<double>(nanoseconds(last) - nanoseconds(first)) / kReadings;
}

}  // namespace

view::CoreFacts read_cores_facts(const GroupLimits& group) {
  return {.name = view::cpu_info().name,
          .online = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)),
          .usable = affinity_cpus(),
          .quota = group.cores};
}

view::MemoryFacts read_memory_facts(const GroupLimits& group) {
  const std::string text = "\n" + file_text("/proc/meminfo");
  const std::uint64_t swap = kilobytes_in(text, "SwapTotal");
  return {.total = kilobytes_in(text, "MemTotal"),
          .available = kilobytes_in(text, "MemAvailable"),
          .group_limit = group.memory,
          .group_used = group.memory_used,
          .swap_total = swap,
          .swap_used = swap - kilobytes_in(text, "SwapFree"),
          .overcommit = file_number("/proc/sys/vm/overcommit_memory"),
          .address_space = resource_limit(RLIMIT_AS, false)};
}

view::SharedMemoryFacts read_shared_memory() {
  struct statvfs found {};
  if (::statvfs("/dev/shm", &found) != 0) return {};
  return {.is_there = true, .size = found.f_blocks * found.f_frsize, .free = found.f_bavail * found.f_frsize};
}

view::LimitFacts read_limits(const GroupLimits& group) {
  return {.files = resource_limit(RLIMIT_NOFILE, true),
          .locked = resource_limit(RLIMIT_MEMLOCK, false),
          .processes = resource_limit(RLIMIT_NPROC, false),
          .tasks = group.tasks,
          .tasks_used = group.tasks_used,
          .has_infiniband = has_entries("/sys/class/infiniband")};
}

view::ClockFacts read_clock() {
  view::ClockFacts clock{.reading_ns = reading_cost_ns()};
  std::ifstream("/sys/devices/system/clocksource/clocksource0/current_clocksource") >> clock.source;
  timex state{};
  const int result = ::adjtimex(&state);  // with no mode set, it only reads
  if (result < 0) return clock;
  constexpr double kMicro = 1e-6;
  clock.is_synchronised = result != TIME_ERROR && (state.status & STA_UNSYNC) == 0;
  clock.error_s = static_cast<double>(state.maxerror) * kMicro;
  return clock;
}

view::GpuFacts read_gpu_facts(const nccl::Search& search) {
  const GpuReport report = read_gpus();
  view::GpuFacts facts{.devices = count_gpu_devices(), .driver = report.driver, .problem = report.problem};
  if (facts.devices > 0 || !report.gpus.empty()) {
    cuda::Search parts = cuda::search_of_this_process();
    if (!search.torch_folder.empty()) parts.torch_folders = {search.torch_folder};
    facts.obstacle = cuda::obstacle_to(parts);
  }
  for (const GpuState& gpu : report.gpus) {
    facts.gpus.push_back({.index = gpu.index, .name = gpu.name, .used = gpu.used_bytes, .total = gpu.total_bytes});
  }
  if (!facts.gpus.empty()) {
    const nccl::Library library = nccl::open(search);
    facts.nccl = {.version = library.version, .path = library.path, .problem = library.problem};
  }
  if (!facts.gpus.empty() && count_gpus() == 0) facts.hidden_by = "CUDA_VISIBLE_DEVICES";
  return facts;
}

}  // namespace lockstep::launch
