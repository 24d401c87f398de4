// SPDX-License-Identifier: Apache-2.0
// Fills buckets in order of arrival.
#include "lockstep/simulate/bucket_plan.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep::simulate {
namespace {

struct Open {
  std::vector<std::size_t> members = {};
  std::int64_t bytes = 0;
  std::size_t last_arrival = 0;
};

}  // namespace

std::vector<std::vector<std::size_t>> plan_buckets(const std::vector<PlanItem>& items,
                                                   const std::vector<std::size_t>& order, const PlanLimits& limits) {
  std::map<std::string, Open> open;
  std::map<std::string, std::int64_t> limit;
  std::vector<Open> closed;
  for (std::size_t position = 0; position < order.size(); ++position) {
    const PlanItem& item = items[order[position]];
    Open& bucket = open[item.kind];
    bucket.members.push_back(order[position]);
    bucket.bytes += item.bytes;
    bucket.last_arrival = position;
    const auto bound = limit.try_emplace(item.kind, limits.first_bytes).first;
    if (bucket.bytes < bound->second) continue;
    closed.push_back(std::exchange(bucket, {}));
    bound->second = limits.bytes;
  }
  for (auto& [kind, bucket] : open) {
    if (!bucket.members.empty()) closed.push_back(std::move(bucket));
  }
  std::sort(closed.begin(), closed.end(), [](const Open& a, const Open& b) { return a.last_arrival < b.last_arrival; });
  std::vector<std::vector<std::size_t>> plan;
  for (auto& bucket : closed) plan.push_back(std::move(bucket.members));
  return plan;
}

}  // namespace lockstep::simulate
