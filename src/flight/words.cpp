// SPDX-License-Identifier: Apache-2.0
#include "flight/words.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/text.h"

namespace lockstep::flight {
namespace {

constexpr double kBusyShare = 0.5;

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

// Past it: this rank has finished what the others still wait for, so it is not the one that they wait for.
bool is_past(const RankFacts& facts, const Lane& held) {
  const Lane* lane = lane_of(facts, held.group);
  return lane != nullptr && lane->finished >= held.started;
}

}  // namespace

std::optional<HeldUp> held_up(const std::vector<RankFacts>& all) {
  std::optional<HeldUp> found;
  for (const RankFacts& facts : all) {
    if (!facts.ring) continue;
    for (const Lane& lane : facts.ring->lanes) {
      if (!lane.is_running() || (found && found->lane.started_ns <= lane.started_ns)) continue;
      const bool somebody_is_missing = std::any_of(
          all.begin(), all.end(), [&](const RankFacts& other) { return !is_in(other, lane) && !is_past(other, lane); });
      if (somebody_is_missing) found = HeldUp{lane, {}};
    }
  }
  if (!found) return std::nullopt;
  for (const RankFacts& facts : all) {
    if (is_in(facts, found->lane)) found->waiting.push_back(facts.rank);
  }
  return found;
}

Cause cause_of(const RankFacts& facts) {
  const ProcessState& process = facts.process;
  if (process.has_ended) return Cause::kLeft;
  if (process.state == 'T' || process.state == 't') return Cause::kStopped;
  if (process.state == 'D') return Cause::kUninterruptible;
  if (process.swapped > process.resident && process.swapped > (64U << 20U)) return Cause::kSwapped;
  const bool has_section = facts.ring && !facts.ring->sections.empty();
  if (has_section && facts.ring->sections.back().name == "DataLoader::next") return Cause::kSlowData;
  if (process.state == 'R' || process.cpu_share > kBusyShare) return Cause::kBusy;
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
      return "it waits for data";
    case Cause::kBusy:
      return "it computes";
    case Cause::kLeft:
      return "its program has ended";
    case Cause::kWaits:
      break;
  }
  return "it sleeps";
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

std::string since_text(std::int64_t from_ns, std::int64_t now_ns) {
  if (from_ns == 0) return "";
  return fmt::format(" since {:.1f} s", std::max(0.0, static_cast<double>(now_ns - from_ns) * 1e-9));
}

const RankFacts& late_of(const std::vector<RankFacts>& all, const HeldUp& held) {
  const RankFacts* late = nullptr;
  for (const RankFacts& each : all) {
    if (is_in(each, held.lane) || is_past(each, held.lane)) continue;
    if (late == nullptr || weight(each) < weight(*late)) late = &each;
  }
  return *late;
}

}  // namespace lockstep::flight
