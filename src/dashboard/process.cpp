// SPDX-License-Identifier: Apache-2.0
#include "dashboard/process.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>

#include "lockstep/base/process_stat.h"
#include "lockstep/launch/gpus.h"

namespace lockstep::dashboard {
namespace {

using Json = nlohmann::json;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

void add_processors(Json& out) {
  std::istringstream line(first_line("/proc/stat"));
  std::string word;
  line >> word;
  std::uint64_t total = 0;
  std::uint64_t idle = 0;
  for (int i = 0; i < 8; ++i) {
    std::uint64_t ticks = 0;
    line >> ticks;
    total += ticks;
    if (i == 3 || i == 4) idle += ticks;  // idle, and waiting for I/O
  }
  const auto tick = static_cast<double>(::sysconf(_SC_CLK_TCK));
  out["cores"] = std::thread::hardware_concurrency();
  out["total"] = static_cast<double>(total) / tick;
  out["busy"] = static_cast<double>(total - idle) / tick;
}

void add_memory(Json& out) {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::uint64_t kilobytes = 0;
  for (std::string unit; file >> name >> kilobytes; std::getline(file, unit)) {
    if (name == "MemTotal:") out["memory"] = kilobytes * 1024;
    if (name == "MemAvailable:") out["available"] = kilobytes * 1024;
  }
}

Json gpus() {
  static std::mutex mutex;
  static Json known = Json::array();
  static std::chrono::steady_clock::time_point next{};
  static bool has_gpus = true;
  const std::scoped_lock lock(mutex);
  const auto now = std::chrono::steady_clock::now();
  if (!has_gpus || now < next) return known;
  next = now + std::chrono::seconds(2);
  const GpuReport report = read_gpus();
  has_gpus = !report.gpus.empty();
  known = Json::array();
  for (const GpuState& gpu : report.gpus) {
    known.push_back({{"index", gpu.index},
                     {"name", gpu.name},
                     {"used", gpu.used_bytes},
                     {"total", gpu.total_bytes},
                     {"percent", gpu.percent ? Json(*gpu.percent) : Json()}});
  }
  return known;
}

}  // namespace

std::optional<ProcessUse> parse_process(std::string_view stat, double tick, std::uint64_t page) {
  std::istringstream words{std::string(fields_of_stat(stat))};
  ProcessUse use;
  words >> use.state;
  std::string word;
  std::uint64_t user = 0;
  std::uint64_t system = 0;
  for (int field = 4; field <= 13; ++field) words >> word;
  words >> user >> system;
  for (int field = 16; field <= 23; ++field) words >> word;
  std::uint64_t pages = 0;
  if (!(words >> pages)) return std::nullopt;
  use.cpu_seconds = static_cast<double>(user + system) / tick;
  use.resident = pages * page;
  return use;
}

std::optional<ProcessUse> read_process(int pid) {
  const auto use =
      parse_process(first_line(fmt::format("/proc/{}/stat", pid)), static_cast<double>(::sysconf(_SC_CLK_TCK)),
                    static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  if (!use || is_state_of_ended(use->state)) return std::nullopt;
  return use;
}

Json read_machine_use() {
  Json out = {{"cores", 1}, {"memory", 0}, {"available", 0}};
  add_processors(out);
  add_memory(out);
  out["gpus"] = gpus();
  return out;
}

}  // namespace lockstep::dashboard
