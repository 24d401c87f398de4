// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "flight/words.h"
#include "lockstep/base/text.h"
#include "lockstep/flight/verdict.h"

namespace lockstep::flight {
namespace {

constexpr const char* kOddHint = "look for a collective inside a branch that depends on the rank or its data";

struct Call {
  const RankFacts* rank = nullptr;
  const Event* event = nullptr;
};

// Returns the event of the operation that failed first.
const Event* failed_of(const std::vector<RankFacts>& facts) {
  const Event* first = nullptr;
  for (const RankFacts& rank : facts) {
    if (!rank.ring) continue;
    for (const Event& event : rank.ring->events) {
      if (event.type != EventType::kCollectiveFailed) continue;
      if (first == nullptr || event.time_ns < first->time_ns) first = &event;
    }
  }
  return first;
}

std::vector<Call> calls_of(const std::vector<RankFacts>& facts, const Event& operation) {
  std::vector<Call> calls;
  for (const RankFacts& rank : facts) {
    if (!rank.ring) continue;
    const auto& events = rank.ring->events;
    const auto found = std::find_if(events.rbegin(), events.rend(), [&](const Event& event) {
      return event.type == EventType::kCollectiveBegin && event.group == operation.group &&
             event.sequence == operation.sequence;
    });
    if (found != events.rend()) calls.push_back({&rank, &*found});
  }
  return calls;
}

using Names = std::map<std::string, std::vector<const Call*>>;

Names names_of(const std::vector<Call>& calls, bool with_size) {
  Names names;
  for (const Call& call : calls) {
    const std::string size = with_size ? " of " + text::bytes(call.event->bytes) : "";
    names[call.event->name + size].push_back(&call);
  }
  return names;
}

}  // namespace

std::optional<FailureRecord> find_odd_call(const std::vector<RankFacts>& facts) {
  const Event* operation = failed_of(facts);
  if (operation == nullptr) return std::nullopt;
  const std::vector<Call> calls = calls_of(facts, *operation);
  Names names = names_of(calls, false);
  if (names.size() == 1) names = names_of(calls, true);
  if (names.size() < 2) return std::nullopt;
  const auto most = std::max_element(names.begin(), names.end(),
                                     [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  if (2 * most->second.size() <= calls.size()) return std::nullopt;
  const auto odd = most == names.begin() ? std::next(names.begin()) : names.begin();
  const Call& call = *odd->second.front();
  std::vector<int> others;
  for (const Call* each : most->second) others.push_back(each->rank->rank);
  const std::string step = call.event->step < 0 ? "" : fmt::format(" in step {}", call.event->step);
  return FailureRecord{.kind = FailureKind::kHang,
                       .type = "UsageError",
                       .message = fmt::format("rank {} called {} as operation {}{}, but {} called {}", call.rank->rank,
                                              odd->first, operation->sequence, step, ranks_text(others), most->first),
                       .hint = kOddHint,
                       .rank = call.rank->rank,
                       .host = call.rank->host};
}

}  // namespace lockstep::flight
