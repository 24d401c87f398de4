// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "lockstep/view/step_report.h"

namespace lockstep::view {

const char* name_of(StepPart part) {
  static constexpr std::array<const char*, kParts> kNames = {"data",      "forward", "backward", "communication",
                                                             "optimizer", "save",    "evaluate", "other"};
  return kNames[static_cast<std::size_t>(part)];
}

const char* name_of(Cause cause) {
  static constexpr std::array<const char*, 8> kNames = {"slow_disk",         "few_workers", "costly_loading",
                                                        "unbalanced_loader", "busy_core",   "more_work",
                                                        "tiny_buckets",      "memory"};
  return kNames[static_cast<std::size_t>(cause)];
}

double RankFigures::share(StepPart part) const { return training() > 0 ? time_in(part) / training() : 0; }

void add(RankFigures& sum, const RankFigures& later) {
  RankFigures total = later;
  total.steps += sum.steps;
  total.seconds += sum.seconds;
  for (std::size_t i = 0; i < kParts; ++i) total.parts[i] += sum.parts[i];
  total.compute_cpu += sum.compute_cpu;
  total.delayed += sum.delayed;
  total.process_cpu += sum.process_cpu;
  total.preempted += sum.preempted;
  total.workers.busy += sum.workers.busy;
  total.workers.cpu += sum.workers.cpu;
  total.workers.delayed += sum.workers.delayed;
  total.read_bytes += sum.read_bytes;
  total.resent += sum.resent;
  for (const Traffic& before : sum.traffic) {
    const auto same = std::find_if(total.traffic.begin(), total.traffic.end(),
                                   [&](const Traffic& each) { return each.name == before.name; });
    if (same == total.traffic.end()) {
      total.traffic.push_back(before);
    } else {
      same->sent += before.sent;
      same->received += before.received;
    }
  }
  total.resident = std::max(total.resident, sum.resident);
  total.shared = std::max(total.shared, sum.shared);
  total.device = std::max(total.device, sum.device);
  sum = std::move(total);  // its stretches already cover the whole run
}

std::optional<NetworkSum> network_of(const StepReport& report) {
  std::set<std::string> seen;
  NetworkSum sum;
  for (const RankFigures& rank : report.ranks) {
    if (!seen.insert(rank.network).second || rank.seconds <= 0) continue;
    for (const Traffic& each : rank.traffic) {
      sum.sent += static_cast<double>(each.sent) / rank.seconds;
      sum.received += static_cast<double>(each.received) / rank.seconds;
    }
    sum.resent += rank.resent;
  }
  return seen.size() > 1 ? std::optional(sum) : std::nullopt;
}

std::vector<Finding> new_findings(const std::vector<Finding>& found, const std::vector<Finding>& said) {
  std::vector<Finding> fresh;
  for (const Finding& each : found) {
    const bool is_said = std::any_of(said.begin(), said.end(), [&](const Finding& before) {
      return before.cause == each.cause && before.rank == each.rank;
    });
    if (!is_said) fresh.push_back(each);
  }
  return fresh;
}

}  // namespace lockstep::view
