// SPDX-License-Identifier: Apache-2.0
#include "flight/words.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/text.h"

namespace lockstep::flight {
namespace {

const Lane* lane_of(const RankFacts& facts, int group) {
  if (!facts.ring) return nullptr;
  for (const Lane& lane : facts.ring->lanes) {
    if (lane.group == group) return &lane;
  }
  return nullptr;
}

bool is_in(const RankFacts& facts, const Lane& held) {
  const Lane* lane = lane_of(facts, held.group);
  return lane != nullptr && lane->is_running() && lane->started == held.started;
}

// Returns true if this rank has already finished the collective that other ranks are waiting in, so they are not
// waiting for this rank.
bool is_past(const RankFacts& facts, const Lane& held) {
  const Lane* lane = lane_of(facts, held.group);
  return lane != nullptr && lane->finished >= held.started;
}

// Returns true if the other ranks are waiting for this rank: it has not begun the collective, or it was stopped, inside
// the collective or elsewhere. In the ring, a rank that was stopped inside looks like a waiting rank. For a message
// between two ranks, the two ranks' sequence numbers cannot be compared.
bool is_late(const RankFacts& facts, const Lane& held) {
  return is_stopped(facts) || (!is_in(facts, held) && !is_past(facts, held));
}

// Returns true for a late rank that does not itself wait in an earlier collective, perhaps for a rank of another host.
bool is_late_itself(const RankFacts& facts, const Lane& held) {
  const Lane* lane = lane_of(facts, held.group);
  const bool waits_before = lane != nullptr && lane->is_running() && lane->started < held.started;
  return is_late(facts, held) && (!waits_before || is_stopped(facts));
}

// Returns true if a disk or swapping blocks the rank inside the collective. Checked last, when every rank is inside the
// collective.
bool is_held_inside(const RankFacts& facts, const Lane& held) { return is_held(facts) && is_in(facts, held); }

bool waits_in(const RankFacts& facts, const Lane& held) { return is_in(facts, held) && !is_stopped(facts); }

using IsLate = bool (*)(const RankFacts&, const Lane&);

std::optional<HeldUp> first_held_up(const std::vector<RankFacts>& all, IsLate is_the_one) {
  std::optional<HeldUp> found;
  for (const RankFacts& facts : all) {
    if (!facts.ring || is_stopped(facts)) continue;
    for (const Lane& lane : facts.ring->lanes) {
      if (!lane.is_running() || (found && found->lane.started_ns <= lane.started_ns)) continue;
      const RankFacts* late = most_surely(all, [&](const RankFacts& each) { return is_the_one(each, lane); });
      if (late != nullptr && late != &facts) found = HeldUp{.lane = lane, .late = late};
    }
  }
  return found;
}

// Returns true if no rank of the job is on another node.
bool is_whole_world(const std::vector<RankFacts>& all) {
  return std::all_of(all.begin(), all.end(), [&](const RankFacts& facts) {
    return !facts.ring || facts.ring->world_size <= static_cast<int>(all.size());
  });
}

}  // namespace

std::optional<HeldUp> held_up(const std::vector<RankFacts>& all) {
  const bool sees_all = is_whole_world(all);
  auto found = first_held_up(all, sees_all ? is_late : is_late_itself);
  if (!found && sees_all) found = first_held_up(all, is_held_inside);
  if (!found) return std::nullopt;
  for (const RankFacts& facts : all) {
    if (waits_in(facts, found->lane) && &facts != found->late) found->waiting.push_back(facts.rank);
  }
  return found;
}

Cause cause_of(const RankFacts& facts) {
  const ProcessState& process = facts.process;
  if (process.has_ended) return Cause::kLeft;
  if (is_stopped(facts)) return Cause::kStopped;
  if (process.state == 'D') return Cause::kUninterruptible;
  if (process.swapped > process.resident && process.swapped > (64U << 20U)) return Cause::kSwapped;
  const bool has_section = facts.ring && !facts.ring->sections.empty();
  if (has_section && facts.ring->sections.back().name == "DataLoader::next") return Cause::kSlowData;
  if (process.state == 'R') return Cause::kBusy;
  return Cause::kWaits;
}

int weight(const RankFacts& facts) { return static_cast<int>(cause_of(facts)); }

std::string place_of(const RankFacts& facts) {
  if (!facts.ring) return "";
  std::string place;
  if (!facts.ring->sections.empty()) place += fmt::format(" in {}", facts.ring->sections.back().name);
  if (facts.ring->step >= 0) place += fmt::format(" {} step {}", place.empty() ? "in" : "of", facts.ring->step);
  return place;
}

std::string words_of(const RankFacts& facts) {
  const ProcessState& process = facts.process;
  switch (cause_of(facts)) {
    case Cause::kStopped:
      return process.state == 't' ? "held by a debugger" : "stopped by SIGSTOP (or SIGTSTP)";
    case Cause::kUninterruptible:
      return process.waits_in.empty() ? "in uninterruptible sleep" : "in uninterruptible sleep in " + process.waits_in;
    case Cause::kSwapped:
      return fmt::format("swapped out ({} of {})", text::bytes(process.swapped),
                         text::bytes(process.swapped + process.resident));
    case Cause::kSlowData:
      return "it is waiting for data";
    case Cause::kBusy:
      return "it computes";
    case Cause::kLeft:
      return "its program has ended";
    case Cause::kWaits:
      break;
  }
  return "it sleeps";
}

std::string late_hint(const std::string& limit) {
  return "check what that rank is doing; if it needs this long, " + limit;
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::vector<std::string> names;
  for (const int rank : ranks) names.push_back(std::to_string(rank));
  return fmt::format("{} {}", names.size() == 1 ? "rank" : "ranks", text::join(names));
}

std::string waiting_text(const HeldUp& held) {
  std::string bucket;
  if (held.lane.bucket >= 0) bucket = fmt::format(" (bucket {} of {})", held.lane.bucket + 1, held.lane.buckets);
  return fmt::format("{} {} in {}{}", ranks_text(held.waiting), held.waiting.size() == 1 ? "waits" : "wait",
                     held.lane.name, bucket);
}

bool is_held(const RankFacts& facts) { return !facts.process.has_ended && cause_of(facts) <= Cause::kSwapped; }

bool runs_collective(const RankFacts& facts) {
  return facts.ring && std::any_of(facts.ring->lanes.begin(), facts.ring->lanes.end(),
                                   [](const Lane& lane) { return lane.is_running(); });
}

std::string time_text(std::int64_t from_ns, std::int64_t now_ns, const std::string& limit) {
  if (from_ns == 0) return "";
  return fmt::format(" ({:.1f} s so far{}{})", std::max(0.0, static_cast<double>(now_ns - from_ns) * 1e-9),
                     limit.empty() ? "" : "; ", limit);
}

}  // namespace lockstep::flight
