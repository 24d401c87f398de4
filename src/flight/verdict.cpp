// SPDX-License-Identifier: Apache-2.0
#include "lockstep/flight/verdict.h"

#include <fmt/format.h>

#include <algorithm>

#include "flight/words.h"

namespace lockstep::flight {
namespace {

// Since when a rank has done nothing that the recorder saw.
std::int64_t last_sign(const RankFacts& facts) { return facts.ring ? facts.ring->last_event_ns : 0; }

Verdict verdict_on(const RankFacts& late, const std::string& since, const std::string& waiters) {
  if (late.process.has_ended) {
    return {.cause = Cause::kLeft,
            .rank = late.rank,
            .text = fmt::format("rank {} left: {}{}; {}{}", late.rank, words_of(late), place_of(late), waiters, since)};
  }
  return {.cause = cause_of(late),
          .rank = late.rank,
          .text = fmt::format("rank {} hangs: {}{}{}; {}", late.rank, words_of(late), place_of(late), since, waiters)};
}

}  // namespace

std::optional<Verdict> judge_for(const Waiter& waiter, const std::vector<RankFacts>& facts, std::int64_t now_ns) {
  const RankFacts* late = nullptr;
  for (const RankFacts& each : facts) {
    if (each.process.has_ended || (runs_collective(each) && !is_held(each))) continue;
    if (late == nullptr || weight(each) < weight(*late)) late = &each;
  }
  if (late == nullptr) return std::nullopt;
  return verdict_on(*late, since_text(last_sign(*late), now_ns),
                    fmt::format("rank {} on {} waits in {}", waiter.rank, waiter.host, waiter.operation));
}

bool is_stopped(const RankFacts& facts) {
  return !facts.process.has_ended && (facts.process.state == 'T' || facts.process.state == 't');
}

std::optional<Verdict> judge(const std::vector<RankFacts>& facts, std::int64_t now_ns) {
  if (const auto held = held_up(facts)) {
    return verdict_on(*held->late, since_text(held->lane.started_ns, now_ns), waiting_text(*held));
  }
  // Nobody's ring says that it waits: the ranks are not connected yet, or record nothing.
  const auto stopped = std::find_if(facts.begin(), facts.end(), is_stopped);
  if (stopped == facts.end()) return std::nullopt;
  return verdict_on(*stopped, since_text(last_sign(*stopped), now_ns), "other ranks gave up waiting");
}

}  // namespace lockstep::flight
