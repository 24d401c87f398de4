// SPDX-License-Identifier: Apache-2.0
// Perfetto's requirement for the events of a trace.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace lockstep::testing {

/// True if the events of each track are nested or disjoint, as Perfetto requires.
inline bool is_nested(const nlohmann::json& events) {
  std::map<std::pair<int, std::int64_t>, std::vector<std::pair<double, double>>> tracks;
  for (const nlohmann::json& event : events) {
    if (event.at("ph") != "X") continue;
    const double begin = event.at("ts");
    tracks[{event.at("pid"), event.at("tid")}].emplace_back(begin, begin + event.at("dur").get<double>());
  }
  for (auto& [track, spans] : tracks) {
    std::sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
    std::vector<double> ends;
    for (const auto& [begin, end] : spans) {
      while (!ends.empty() && ends.back() <= begin + 1e-4) ends.pop_back();
      if (!ends.empty() && end > ends.back() + 1e-4) return false;
      ends.push_back(end);
    }
  }
  return true;
}

}  // namespace lockstep::testing
