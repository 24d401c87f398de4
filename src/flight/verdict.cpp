// SPDX-License-Identifier: Apache-2.0
#include "lockstep/flight/verdict.h"

#include <fmt/format.h>

#include <algorithm>

#include "flight/words.h"
#include "lockstep/base/env.h"

namespace lockstep::flight {
namespace {

// Returns the time of the rank's last event; 0 if there is none.
std::int64_t last_sign(const RankFacts& facts) { return facts.ring ? facts.ring->last_event_ns : 0; }

std::string timeout_hint(std::int64_t timeout_ns) {
  const std::string limit =
      timeout_ns > 0 ? fmt::format(" (now {} s)", static_cast<double>(timeout_ns) * 1e-9) : " (seconds)";
  return late_hint(fmt::format("raise {}{}", env::timeout_variable(), limit));
}

FailureRecord verdict_on(const RankFacts& late, const std::string& time, const std::string& waiters,
                         const std::vector<RankFacts>& all) {
  const std::string doing = words_of(late) + place_of(late);
  const bool has_left = late.process.has_ended;
  return {.kind = FailureKind::kHang,
          .type = has_left ? "PeerError" : "TimeoutError",
          .message = has_left ? fmt::format("rank {} left: {}; {}{}", late.rank, doing, waiters, time)
                              : fmt::format("rank {} hangs: {}{}; {}", late.rank, doing, time, waiters),
          .hint = has_left ? kLeftHint : timeout_hint(timeout_of(all)),
          .rank = late.rank,
          .host = late.host};
}

}  // namespace

std::int64_t timeout_of(const std::vector<RankFacts>& ranks) {
  std::int64_t timeout = 0;
  for (const RankFacts& rank : ranks) timeout = std::max(timeout, rank.ring ? rank.ring->timeout_ns : 0);
  return timeout;
}

bool is_stopped(const RankFacts& facts) {
  return !facts.process.has_ended && (facts.process.state == 'T' || facts.process.state == 't');
}

std::optional<FailureRecord> judge(const std::vector<RankFacts>& facts, std::int64_t now_ns,
                                   const FailureRecord* waiter) {
  if (waiter != nullptr) {
    const RankFacts* late = most_surely(facts, [](const RankFacts& each) {
      return !each.process.has_ended && (!runs_collective(each) || is_held(each));
    });
    if (late == nullptr) return std::nullopt;
    const std::string operation = waiter->message.substr(0, waiter->message.find(' '));
    return verdict_on(*late, time_text(last_sign(*late), now_ns),
                      fmt::format("rank {} on {} waits in {}", waiter->rank, waiter->host, operation), facts);
  }
  if (const auto held = held_up(facts)) {
    return verdict_on(*held->late, time_text(held->lane.started_ns, now_ns), waiting_text(*held), facts);
  }
  // The rings do not show a wait: the ranks are not connected yet, or have no recorder.
  const auto stopped = std::find_if(facts.begin(), facts.end(), is_stopped);
  if (stopped == facts.end()) return std::nullopt;
  return verdict_on(*stopped, time_text(last_sign(*stopped), now_ns), "other ranks gave up waiting", facts);
}

}  // namespace lockstep::flight
