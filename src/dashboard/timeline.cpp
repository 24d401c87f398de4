// SPDX-License-Identifier: Apache-2.0
#include "dashboard/timeline.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep::dashboard {
namespace {

using flight::Event;
using flight::EventType;

/// Pairs begin events with their end events.
class Pairs {
 public:
  explicit Pairs(std::int64_t from_ns) : from_ns_(from_ns) {}

  void add(const Event& event) {
    switch (event.type) {
      case EventType::kSectionBegin:
        sections_.push_back(event);
        return;
      case EventType::kSectionEnd:
        end_section(event);
        return;
      case EventType::kCollectiveBegin:
        calls_[{event.group, event.sequence}] = event;
        return;
      case EventType::kCollectiveEnd:
      case EventType::kCollectiveFailed:
        end_call(event);
        return;
      case EventType::kNone:
        return;
    }
  }

  std::vector<TimeSpan> finish(std::int64_t now_ns) {
    for (std::size_t depth = 0; depth < sections_.size(); ++depth) {
      keep(sections_[depth], {.end_ns = now_ns, .depth = static_cast<int>(depth), .is_open = true});
    }
    for (const auto& [key, call] : calls_) keep(call, {.end_ns = now_ns, .kind = 1, .is_open = true});
    return std::move(spans_);
  }

 private:
  void keep(const Event& begin, TimeSpan span) {
    if (span.end_ns < from_ns_) return;
    span.begin_ns = begin.time_ns;
    span.name = begin.name;
    span.step = begin.step;
    span.bytes = begin.bytes;
    span.bucket = begin.bucket;
    spans_.push_back(std::move(span));
  }

  // Other threads have sections too, so it is the innermost section with this name that ends.
  void end_section(const Event& end) {
    const auto found =
        std::find_if(sections_.rbegin(), sections_.rend(), [&](const Event& begin) { return begin.name == end.name; });
    if (found == sections_.rend()) return;
    const auto at = found.base() - 1;
    keep(*at, {.end_ns = end.time_ns, .depth = static_cast<int>(at - sections_.begin())});
    sections_.erase(at);
  }

  void end_call(const Event& end) {
    const auto found = calls_.find({end.group, end.sequence});
    if (found == calls_.end()) return;
    keep(found->second, {.end_ns = end.time_ns, .kind = end.type == EventType::kCollectiveFailed ? 2 : 1});
    calls_.erase(found);
  }

  std::int64_t from_ns_;
  std::vector<TimeSpan> spans_;
  std::vector<Event> sections_;
  std::map<std::pair<int, std::uint64_t>, Event> calls_;
};

}  // namespace

std::vector<TimeSpan> spans_of(const flight::Snapshot& ring, std::int64_t from_ns, std::int64_t now_ns) {
  Pairs pairs(from_ns);
  for (const Event& event : ring.events) pairs.add(event);
  return pairs.finish(now_ns);
}

}  // namespace lockstep::dashboard
