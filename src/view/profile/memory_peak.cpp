// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "lockstep/view/profile.h"
#include "view/profile/call_order.h"

namespace lockstep::view {
namespace {

using Events = std::vector<MemoryEvent>;

Events events_in_order(const Profile& profile) {
  Events events = profile.memory;
  std::stable_sort(events.begin(), events.end(),
                   [](const MemoryEvent& a, const MemoryEvent& b) { return a.at_ns < b.at_ns; });
  return events;
}

/// The live blocks, by address. A block that was allocated before the profile is unknown here when it is released.
class LivingBlocks {
 public:
  void apply(const MemoryEvent& event) {
    const auto old = blocks_.find(event.address);
    if (old != blocks_.end()) {
      bytes_ -= old->second.bytes;
      blocks_.erase(old);
    }
    if (event.bytes <= 0) return;
    blocks_.emplace(event.address, event);
    bytes_ += event.bytes;
  }

  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] const std::map<std::uintptr_t, MemoryEvent>& blocks() const { return blocks_; }

 private:
  std::map<std::uintptr_t, MemoryEvent> blocks_;
  std::int64_t bytes_ = 0;
};

/// Returns the number of events up to the peak; among equal peaks, the first.
std::size_t events_to_peak(const Events& events) {
  LivingBlocks living;
  std::size_t at_peak = 0;
  std::int64_t most = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    living.apply(events[i]);
    if (living.bytes() <= most) continue;
    most = living.bytes();
    at_peak = i + 1;
  }
  return at_peak;
}

bool covers(const ProfiledCall& call, const MemoryEvent& event) {
  return call.thread == event.thread && call.begin_ns <= event.at_ns && event.at_ns < call.end_ns;
}

/// Returns the origin of a block: the outermost operator, and the layer of the outermost call that has a layer.
std::pair<std::string, std::string> origin(const Calls& operators, const MemoryEvent& event) {
  std::pair<std::string, std::string> found;
  for (const ProfiledCall* call : operators) {
    if (!covers(*call, event)) continue;
    if (found.first.empty()) found.first = call->name;
    if (found.second.empty()) found.second = call->layer;
  }
  return found;
}

std::string innermost_section(const Profile& profile, const MemoryEvent& event) {
  const auto is_section = [](const ProfiledCall& call) { return call.kind == CallKind::kSection; };
  std::string name;
  for (const ProfiledCall* call : calls_in_order(profile, true, is_section)) {
    if (covers(*call, event)) name = call->name;
  }
  return name;
}

}  // namespace

MemoryPeak memory_peak(const Profile& profile) {
  const Events events = events_in_order(profile);
  const std::size_t count = events_to_peak(events);
  if (count == 0) return {};
  LivingBlocks living;
  for (std::size_t i = 0; i < count; ++i) living.apply(events[i]);
  const auto makes_tensors = [](const ProfiledCall& call) {
    return is_operator(call) && call.kind != CallKind::kEngine;
  };
  const Calls operators = calls_in_order(profile, true, makes_tensors);
  std::map<std::pair<std::string, std::string>, MemoryRow> rows;
  for (const auto& [address, event] : living.blocks()) {
    MemoryRow& row = rows[origin(operators, event)];
    row.tensors += 1;
    row.bytes += event.bytes;
  }
  MemoryPeak peak{.bytes = living.bytes(), .section = innermost_section(profile, events[count - 1])};
  for (auto& [from, row] : rows) {
    std::tie(row.made_by, row.layer) = from;
    peak.rows.push_back(std::move(row));
  }
  std::stable_sort(peak.rows.begin(), peak.rows.end(),
                   [](const MemoryRow& a, const MemoryRow& b) { return a.bytes > b.bytes; });
  return peak;
}

}  // namespace lockstep::view
