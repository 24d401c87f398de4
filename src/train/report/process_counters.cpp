// SPDX-License-Identifier: Apache-2.0
#include "train/report/process_counters.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include "lockstep/base/control_group.h"

namespace lockstep::train {
namespace {

constexpr double kNsToSeconds = 1e-9;
constexpr std::int64_t kKiB = 1024;

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Returns the word after `key` in the text of a file in /proc.
std::string word_of(const std::string& text, const std::string& key) {
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    if (word == key && in >> word) return word;
  }
  return "";
}

double cores_of(const GroupLimits& limits) {
  const double cores = affinity_cpus();
  return limits.cores ? std::min(cores, *limits.cores) : cores;
}

void read_host_memory(const GroupLimits& limits, ProcessState& state) {
  const std::string memory = text_of("/proc/meminfo");
  state.host_memory = number_of(memory, "MemTotal:").value_or(0) * kKiB;
  state.host_free = number_of(memory, "MemAvailable:").value_or(0) * kKiB;
  if (!limits.memory) return;
  const auto limit = static_cast<std::int64_t>(*limits.memory);
  const std::int64_t left = limit - std::min(limit, static_cast<std::int64_t>(limits.memory_used));
  if (limit >= state.host_memory && left >= state.host_free) return;
  state.host_memory = std::min(limit, state.host_memory);
  state.host_free = std::min(left, state.host_free);
}

}  // namespace

std::optional<std::int64_t> number_of(std::string_view text, std::string_view key) {
  for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    if (at > 0 && text[at - 1] != '\n') continue;
    const std::size_t digits = text.find_first_not_of(" \t", at + key.size());
    std::int64_t value = 0;
    if (digits == std::string_view::npos) return std::nullopt;
    const auto read = std::from_chars(text.data() + digits, text.data() + text.size(), value);
    return read.ec == std::errc() ? std::optional(value) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::int64_t> delay_of(std::string_view schedstat) {
  const std::size_t second = schedstat.find(' ');
  std::int64_t value = 0;
  if (second == std::string_view::npos) return std::nullopt;
  const auto read = std::from_chars(schedstat.data() + second + 1, schedstat.data() + schedstat.size(), value);
  return read.ec == std::errc() ? std::optional(value) : std::nullopt;
}

ProcessCounters read_counters() {
  timespec cpu{};
  rusage own{};
  (void)::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  (void)::getrusage(RUSAGE_THREAD, &own);
  // A container may hide this file. Reads through mapped memory count only if they came from disk.
  const std::string io = text_of("/proc/self/io");
  return {.cpu = static_cast<double>(cpu.tv_sec) + static_cast<double>(cpu.tv_nsec) * kNsToSeconds,
          .read_bytes = std::max(number_of(io, "rchar:").value_or(0), number_of(io, "read_bytes:").value_or(0)),
          .preempted = own.ru_nivcsw};
}

std::vector<view::Traffic> parse_interfaces(std::string_view text) {
  static constexpr std::array<std::string_view, 7> kRepeats = {"lo", "br", "docker", "virbr", "veth", "ifb", "cni"};
  std::vector<view::Traffic> found;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;  // a header line
    const std::size_t begin = line.find_first_not_of(' ');
    view::Traffic each{.name = line.substr(begin, colon - begin)};
    const bool repeats = std::any_of(kRepeats.begin(), kRepeats.end(),
                                     [&](std::string_view prefix) { return each.name.starts_with(prefix); });
    std::istringstream fields(line.substr(colon + 1));
    constexpr int kSent = 8;  // index of the sent bytes, after the eight fields of received traffic
    std::int64_t value = 0;
    for (int i = 0; i <= kSent && fields >> value; ++i) {
      if (i == 0) each.received = value;
      if (i == kSent) each.sent = value;
    }
    if (!repeats) found.push_back(std::move(each));
  }
  return found;
}

std::int64_t parse_resent(std::string_view text) {
  // The text has a line of names, followed by a line with their values.
  std::istringstream lines{std::string(text)};
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("Tcp:")) continue;
    std::istringstream in(line);
    const std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
    if (names.empty()) {
      names = words;
      continue;
    }
    const auto at = std::find(names.begin(), names.end(), "RetransSegs") - names.begin();
    return at < std::ssize(words) ? std::atoll(words[static_cast<std::size_t>(at)].c_str()) : 0;
  }
  return 0;
}

NetworkCounters read_network_counters(const std::string& host) {
  // These files describe the process's own network namespace.
  std::error_code problem;
  const std::string space = std::filesystem::read_symlink("/proc/self/ns/net", problem).string();
  return {.network = host + " " + space,
          .traffic = parse_interfaces(text_of("/proc/self/net/dev")),
          .resent = parse_resent(text_of("/proc/self/net/snmp"))};
}

NetworkCounters passed_since(const NetworkCounters& before, const NetworkCounters& now) {
  NetworkCounters passed{.network = now.network, .resent = now.resent - before.resent};
  for (view::Traffic each : now.traffic) {
    const auto same = std::find_if(before.traffic.begin(), before.traffic.end(),
                                   [&](const view::Traffic& other) { return other.name == each.name; });
    if (same == before.traffic.end()) continue;
    each.sent -= same->sent;
    each.received -= same->received;
    if (each.sent > 0 || each.received > 0) passed.traffic.push_back(std::move(each));
  }
  return passed;
}

ProcessState read_state() {
  const GroupLimits limits = read_control_group();
  const std::string status = text_of("/proc/self/status");
  ProcessState state{.cores = cores_of(limits),
                     .cpus = word_of(status, "Cpus_allowed_list:"),
                     .resident = number_of(status, "VmHWM:").value_or(0) * kKiB,
                     .shared = number_of(status, "RssShmem:").value_or(0) * kKiB};
  read_host_memory(limits, state);
  return state;
}

double DelayCounter::since_last(const std::vector<int>& threads) {
  const std::map<int, std::int64_t> before = std::exchange(last_, {});
  std::int64_t sum = 0;
  for (const int thread : threads) {
    const auto delay = delay_of(text_of(fmt::format("/proc/self/task/{}/schedstat", thread)));
    if (!delay) continue;
    const auto found = before.find(thread);
    const std::int64_t last = found == before.end() ? 0 : found->second;
    if (last_.emplace(thread, *delay).second) sum += std::max<std::int64_t>(*delay - last, 0);
  }
  return static_cast<double>(sum) * kNsToSeconds;
}

}  // namespace lockstep::train
