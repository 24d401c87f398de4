// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/agreement.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <set>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/objects.h"

namespace lockstep {
namespace {

using Settings = std::map<std::string, std::string>;
constexpr const char* kMissing = "missing";

std::uint64_t digest(const Settings& settings) {
  const std::string bytes = comm::pack_object(settings);
  return XXH3_64bits(bytes.data(), bytes.size());
}

/// Returns "7 on rank 0, 8 on ranks 1, 2"; empty if all ranks have the same value.
std::string differing_values(const std::string& key, const std::vector<Settings>& all) {
  std::vector<std::pair<std::string, std::vector<int>>> values;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto found = all[rank].find(key);
    const std::string value = found == all[rank].end() ? kMissing : found->second;
    const auto known =
        std::find_if(values.begin(), values.end(), [&](const auto& entry) { return entry.first == value; });
    if (known == values.end()) {
      values.push_back({value, {static_cast<int>(rank)}});
    } else {
      known->second.push_back(static_cast<int>(rank));
    }
  }
  if (values.size() == 1) return "";
  std::vector<std::string> parts;
  for (const auto& [value, ranks] : values) {
    parts.push_back(fmt::format("{} on rank{} {}", value, ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", ")));
  }
  return fmt::format("\n  {:<13} {}", key, fmt::join(parts, "; "));
}

}  // namespace

void require_same_settings(ProcessGroup& group, const std::map<std::string, std::string>& settings) {
  const auto digests = all_gather_object(group, digest(settings));
  if (std::all_of(digests.begin(), digests.end(), [&](std::uint64_t other) { return other == digests.front(); }))
    return;
  const std::vector<Settings> all = all_gather_object(group, settings);
  std::set<std::string> keys;
  for (const Settings& one : all) {
    for (const auto& [key, value] : one) keys.insert(key);
  }
  std::string message = "the ranks were started with different settings";
  for (const std::string& key : keys) message += differing_values(key, all);
  throw UsageError(message, "start the same program with the same settings on every rank");
}

}  // namespace lockstep
