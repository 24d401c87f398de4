// SPDX-License-Identifier: Apache-2.0
#include "lockstep/flight/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "flight/words.h"
#include "lockstep/base/text.h"

namespace lockstep::flight {
namespace {

// Work that is rare, or that one rank does while the other ranks wait for it.
constexpr std::array<std::string_view, 3> kLongWork{"setup", "evaluate", "save"};
// Long work whose length is no guide to the next one: a save may wait for the one that is being written.
constexpr std::array<std::string_view, 2> kUneven{"setup", "save"};
constexpr int kUsualTimes = 3;

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

template <std::size_t kCount>
bool is_one_of(const std::array<std::string_view, kCount>& names, const Section& section) {
  return std::find(names.begin(), names.end(), section.name) != names.end();
}

bool is_long_work(const Section& section) { return is_one_of(kLongWork, section); }

// Combines the ranks' facts about a name, which a rank's table may contain several times.
SectionName known_of(const std::string& name, const std::vector<RankFacts>& ranks) {
  SectionName known{.name = name};
  for (const RankFacts& rank : ranks) {
    if (!rank.ring) continue;
    for (const SectionName& each : rank.ring->names) {
      if (each.name != name) continue;
      known.longest_ns = std::max(known.longest_ns, each.longest_ns);
      if (each.limit_ns != 0) known.limit_ns = each.limit_ns;
    }
  }
  return known;
}

bool is_alive(const RankFacts& rank) { return rank.ring && !rank.process.has_ended; }

// Returns the time at which a rank's innermost section went silent.
std::int64_t silent_since(const RankFacts& rank, const WatchFacts& facts) {
  return std::max({rank.ring->sections.back().since_ns, rank.ring->last_event_ns, facts.watched_since_ns});
}

bool is_in_section(const RankFacts& rank) {
  return is_alive(rank) && !rank.ring->sections.empty() && !runs_collective(rank);
}

std::string limit_text(const SectionLimit& limit) {
  if (limit.longest_ns == 0) return fmt::format("limit {}", text::duration(seconds(limit.ns)));
  return fmt::format("limit {}; the longest so far took {}", text::duration(seconds(limit.ns)),
                     text::duration(seconds(limit.longest_ns)));
}

std::string doing_text(const RankFacts& rank) { return words_of(rank) + place_of(rank); }

std::optional<Stall> stall_of_waiters(const WatchFacts& facts) {
  if (const auto held = held_up(facts.ranks)) {
    const RankFacts& late = *held->late;
    return Stall{held->lane.started_ns, fmt::format("{} for rank {}{}: {}", waiting_text(*held), late.rank,
                                                    time_text(held->lane.started_ns, facts.now_ns), doing_text(late))};
  }
  // Every rank of the job is on this host, so the late rank is not on another node.
  for (const RankFacts& rank : facts.ranks) {
    if (!is_alive(rank)) continue;
    for (const Lane& lane : rank.ring->lanes) {
      if (!lane.is_running() || rank.ring->world_size <= static_cast<int>(facts.ranks.size())) continue;
      HeldUp held{.lane = lane};
      for (const RankFacts& each : facts.ranks) held.waiting.push_back(each.rank);
      return Stall{lane.started_ns, fmt::format("{} for a rank on another node{}", waiting_text(held),
                                                time_text(lane.started_ns, facts.now_ns))};
    }
  }
  return std::nullopt;
}

}  // namespace

SectionLimit limit_of(const Section& section, const WatchFacts& facts) {
  if (section.limit_ns > 0) return {.ns = section.limit_ns, .is_set = true};
  const SectionName known = known_of(section.name, facts.ranks);
  if (known.limit_ns != 0) return {.ns = std::max<std::int64_t>(known.limit_ns, 0), .is_set = true};
  const SectionRules& rules = facts.rules;
  const bool is_learned = known.longest_ns != 0 && !is_one_of(kUneven, section);
  const bool has_long_limit = is_long_work(section) && !is_learned;
  const std::int64_t least = has_long_limit ? std::max(rules.least_ns, rules.least_long_ns) : rules.least_ns;
  if (known.longest_ns == 0) return {.ns = std::max(least, timeout_of(facts.ranks))};
  return {.ns = std::max(least, rules.factor * known.longest_ns), .longest_ns = known.longest_ns};
}

std::optional<FailureRecord> judge_sections(const WatchFacts& facts) {
  const RankFacts* late = most_surely(facts.ranks, [&](const RankFacts& rank) {
    if (!is_in_section(rank)) return false;
    const SectionLimit limit = limit_of(rank.ring->sections.back(), facts);
    return limit.ns != 0 && facts.now_ns - silent_since(rank, facts) > limit.ns;
  });
  if (late == nullptr) return std::nullopt;
  const Section& section = late->ring->sections.back();
  return FailureRecord{
      .kind = FailureKind::kHang,
      .type = "TimeoutError",
      .message = fmt::format("rank {} hangs: {}{}", late->rank, doing_text(*late),
                             time_text(silent_since(*late, facts), facts.now_ns, limit_text(limit_of(section, facts)))),
      .hint = late_hint(fmt::format("set LOCKSTEP_SECTION_TIMEOUT='{}=SECONDS' (0: no limit)", section.name)),
      .rank = late->rank,
      .host = late->host};
}

bool has_long_work(const WatchFacts& facts) {
  return std::any_of(facts.ranks.begin(), facts.ranks.end(), [&](const RankFacts& rank) {
    if (!is_in_section(rank) || is_held(rank)) return false;
    const auto& sections = rank.ring->sections;
    return std::any_of(sections.begin(), sections.end(), [&](const Section& section) {
      const SectionLimit limit = limit_of(section, facts);
      if (!limit.is_set && !is_long_work(section)) return false;
      return limit.ns == 0 || facts.now_ns - std::max(section.since_ns, facts.watched_since_ns) <= limit.ns;
    });
  });
}

std::optional<Stall> longest_stall(const WatchFacts& facts) {
  if (auto stall = stall_of_waiters(facts)) return stall;
  std::optional<Stall> longest;
  for (const RankFacts& rank : facts.ranks) {
    if (!is_in_section(rank)) continue;
    const std::int64_t since = silent_since(rank, facts);
    const std::int64_t usual = known_of(rank.ring->sections.back().name, facts.ranks).longest_ns;
    if (facts.now_ns - since <= kUsualTimes * usual || (longest && longest->since_ns <= since)) continue;
    const SectionLimit limit = limit_of(rank.ring->sections.back(), facts);
    const std::string until = limit.ns == 0 ? "" : limit_text(limit);
    longest =
        Stall{since, fmt::format("rank {}: {}{}", rank.rank, doing_text(rank), time_text(since, facts.now_ns, until))};
  }
  return longest;
}

}  // namespace lockstep::flight
