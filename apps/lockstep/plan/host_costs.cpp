// SPDX-License-Identifier: Apache-2.0
#include "lockstep/plan/plan.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/launch/child.h"

namespace lockstep::apps {
namespace {

constexpr std::int64_t kSmallBytes = 4096;
constexpr std::int64_t kLargeBytes = 4 << 20;
constexpr int kBenchRanks = 2;
constexpr auto kBenchLimit = std::chrono::milliseconds(20'000);

/// The seconds of an all-reduce, by size in bytes; empty if it could not be measured.
std::map<std::int64_t, double> all_reduce_times(const std::string& backend) {
  const ChildResult result = run_child(
      {"/proc/self/exe", "bench", "all-reduce", "--nproc-per-node", std::to_string(kBenchRanks), "--backend", backend,
       "--bytes", std::to_string(kSmallBytes), std::to_string(kLargeBytes), "--mode", "in_place", "--json", "--quiet"},
      kBenchLimit);
  std::map<std::int64_t, double> times;
  for (std::size_t at = 0; at < result.out.size();) {
    const std::size_t end = std::min(result.out.find('\n', at), result.out.size());
    const auto json = json_or_null(std::string_view(result.out).substr(at, end - at));
    at = end + 1;
    if (!json.is_object() || !json.contains("median_us") || !json.contains("bytes")) continue;
    if (json["median_us"].is_number())
      times[json.value("bytes", std::int64_t{0})] = json.value("median_us", 0.0) * 1e-6;
  }
  if (!times.contains(kSmallBytes) || !times.contains(kLargeBytes)) times.clear();
  return times;
}

/// The CPU seconds of this thread.
double core_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// The rate of copying memory that is not in a cache, in bytes per second of CPU time.
double copy_rate() {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  std::vector<char> from(kBytes, 1);
  std::vector<char> to(kBytes, 2);
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const double begin = core_seconds();
    std::memcpy(to.data(), from.data(), kBytes);
    const double took = core_seconds() - begin;
    from[static_cast<std::size_t>(i)] = to[kBytes - 1];
    best = std::max(best, static_cast<double>(kBytes) / took);
  }
  return best;
}

}  // namespace

MeasuredHost measure_host() {
  MeasuredHost host;
  host.costs.copy_bytes_per_s = copy_rate();
  host.costs.reduce_ranks = kBenchRanks;
  const auto sockets = all_reduce_times("tcp");
  const auto shared = all_reduce_times("shm");
  if (sockets.empty() || shared.empty()) host.problem = "lockstep bench all-reduce printed no results";
  if (!sockets.empty()) {
    // The small all-reduce is a single exchange of one message. The large one is three exchanges, two of which each
    // transfer half the bytes.
    host.costs.message_s = sockets.at(kSmallBytes);
    const double moving = sockets.at(kLargeBytes) - 3 * host.costs.message_s;
    if (moving > 0) host.costs.socket_bytes_per_s = static_cast<double>(kLargeBytes) / moving;
  }
  if (!shared.empty()) host.costs.reduce_bytes_per_s = static_cast<double>(kLargeBytes) / shared.at(kLargeBytes);
  return host;
}

std::string host_text(const simulate::HostCosts& costs) {
  return fmt::format(
      "measured on this machine: {:.0f} us per message, {:.2f} GB/s through sockets, {:.2f} GB/s all-reduce in memory, "
      "{:.1f} GB/s memory copies",
      costs.message_s * 1e6, costs.socket_bytes_per_s / 1e9, costs.reduce_bytes_per_s / 1e9,
      costs.copy_bytes_per_s / 1e9);
}

}  // namespace lockstep::apps
