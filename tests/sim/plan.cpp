// SPDX-License-Identifier: Apache-2.0
#include "sim/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "lockstep/base/error.h"

namespace lockstep::sim {
namespace {

using Kind = Fault::Kind;

constexpr std::uint64_t kOneIsLargeOf = 200;

// Returns the duration up to which a fault may go unnoticed.
Nanos short_time(const Plan& plan) { return plan.silence() / 4; }

bool lasts(Kind kind) {
  return kind == Kind::kFreezeAgent || kind == Kind::kFreezeHost || kind == Kind::kCut || kind == Kind::kCutOneWay ||
         kind == Kind::kLoss || kind == Kind::kRefuseCalls || kind == Kind::kSlow;
}

// Returns true if another fault affects the same link: each may be short, but together they may be long.
bool has_companion_on_link(const Fault& fault, const Plan& plan) {
  if (!is_of_link(fault.kind)) return false;
  return std::count_if(plan.faults.begin(), plan.faults.end(), [&](const Fault& other) {
           return is_of_link(other.kind) &&
                  std::minmax(other.node, other.other) == std::minmax(fault.node, fault.other);
         }) > 1;
}

bool is_harmless(const Fault& fault, const Plan& plan) {
  if (has_companion_on_link(fault, plan) && !plan.is_range()) return false;
  if (fault.kind == Kind::kJumpClock || fault.kind == Kind::kLoss) return true;
  if (fault.kind == Kind::kStartAgent) return plan.is_range() && fault.node != 0;
  return lasts(fault.kind) && fault.lasts <= short_time(plan);
}

Fault draw_fault(Dice& dice, const Plan& plan, Nanos begin, Nanos end) {
  Fault fault{.kind = static_cast<Kind>(dice.between(0, static_cast<int>(Kind::kCount) - 1)),
              .at = dice.between(begin, end)};
  fault.node = static_cast<int>(dice.between(0, plan.nodes - 1));
  if (is_of_rank(fault.kind)) {
    fault.other = static_cast<int>(dice.between(0, plan.ranks[static_cast<std::size_t>(fault.node)] - 1));
  } else {
    fault.other = static_cast<int>(dice.between(0, plan.nodes - 1));
    if (fault.other == fault.node) fault.other = (fault.node + 1) % plan.nodes;
  }
  if (lasts(fault.kind)) {
    const bool is_short = dice.chance(0.4);
    fault.lasts =
        is_short ? dice.between(kMilli, short_time(plan)) : dice.between(plan.silence() / 4, 4 * plan.silence());
  }
  if (fault.kind == Kind::kPreempt) fault.lasts = dice.between(kSecond, 30 * kSecond);
  // Other nodes detect hung ranks, unless all nodes but one hang: the last one continues on its own.
  if (fault.kind == Kind::kHangRank) fault.much = static_cast<double>(dice.between(1, 3 * plan.timeout_s));
  if (fault.kind == Kind::kLoss) fault.much = static_cast<double>(dice.between(1, 20)) / 100;
  if (fault.kind == Kind::kSlow) fault.much = static_cast<double>(dice.between(1, 10)) / 100;
  if (fault.kind == Kind::kJumpClock) fault.much = static_cast<double>(dice.between(-30, 30));
  return fault;
}

// Restarts half of the killed nodes, as an operator or scheduler would.
void add_returns(Dice& dice, Plan& plan) {
  const std::vector<Fault> faults = plan.faults;
  for (const Fault& fault : faults) {
    const bool ends_agent = fault.kind == Kind::kKillAgent || fault.kind == Kind::kPowerOff ||
                            fault.kind == Kind::kTellToLeave || fault.kind == Kind::kPreempt;
    if (!ends_agent || !dice.chance(0.5)) continue;
    const Nanos gone = fault.kind == Kind::kPreempt ? fault.lasts : 0;
    const Nanos most = dice.chance(0.5) ? 2 * kSecond : 20 * kSecond;  // a supervisor is fast
    plan.faults.push_back(
        {.kind = Kind::kStartAgent, .at = fault.at + gone + dice.between(100 * kMilli, most), .node = fault.node});
  }
}

// Adds second faults right after a first one, often on its node: faults with one hidden cause come together.
void add_companions(Dice& dice, Plan& plan) {
  const std::vector<Fault> faults = plan.faults;
  for (const Fault& fault : faults) {
    if (!dice.chance(0.15)) continue;
    Fault other = draw_fault(dice, plan, fault.at, fault.at + 500 * kMilli);
    if (!is_of_link(other.kind) && dice.chance(0.7)) {
      other.node = fault.node;
      const int ranks = plan.ranks[static_cast<std::size_t>(other.node)];
      if (is_of_rank(other.kind)) other.other = static_cast<int>(dice.between(0, ranks - 1));
    }
    plan.faults.push_back(other);
  }
}

// Adds an operator, who removes nodes from a running job and adds others, including nodes that were not in the job
// before.
void add_operator(Dice& dice, Plan& plan) {
  Nanos at = dice.between(3 * kSecond, 8 * kSecond);
  for (auto left = dice.between(2, 5); left > 0; --left) {
    plan.faults.push_back({.kind = dice.chance(0.5) ? Kind::kTellToLeave : Kind::kStartAgent,
                           .at = at,
                           .node = static_cast<int>(dice.between(1, plan.nodes - 1))});
    at += dice.between(kSecond, 10 * kSecond);
  }
}

void draw_nodes(Dice& dice, Plan& plan, bool is_large) {
  plan.nodes = static_cast<int>(dice.chance(0.1) ? dice.between(4, 8) : dice.between(1, 3));
  if (is_large) plan.nodes = static_cast<int>(dice.between(9, 64));
  const bool is_range = plan.nodes > 1 && dice.chance(0.5);
  const bool has_spares = is_range && plan.nodes > 2 && dice.chance(0.3);
  plan.max_nodes = has_spares ? plan.nodes - 1 : plan.nodes;
  plan.min_nodes = is_range ? static_cast<int>(dice.between(1, plan.max_nodes - 1)) : plan.nodes;
  const int most = is_large ? 8 : plan.nodes > 3 ? 1 : 3;
  const auto each = static_cast<int>(dice.between(1, most));
  for (int i = 0; i < plan.nodes; ++i) {
    plan.ranks.push_back(dice.chance(0.2) ? static_cast<int>(dice.between(1, most)) : each);
    const bool is_late = is_range && i >= plan.min_nodes && dice.chance(0.4);
    const bool is_added = is_late && dice.chance(0.2);  // started by an operator, if at all
    const Nanos start = is_late ? dice.between(5 * kSecond, 25 * kSecond) : dice.between(0, 2 * kSecond);
    plan.starts.push_back(is_added ? kNever : start);
  }
  plan.replicas = dice.chance(0.2) ? static_cast<int>(dice.between(1, plan.nodes * each)) : 0;
}

}  // namespace

bool is_of_rank(Kind kind) {
  return kind == Kind::kKillRank || kind == Kind::kFailRank || kind == Kind::kBreakRank || kind == Kind::kHangRank;
}

const char* name_of(Kind kind) {
  constexpr std::array<const char*, static_cast<std::size_t>(Kind::kCount)> kNames = {
      "kill agent",    "power off",     "freeze agent", "freeze host", "cut link",  "cut link one way",
      "lose segments", "refuse calls",  "slow agent",   "kill rank",   "fail rank", "break rank",
      "hang rank",     "tell to leave", "preempt",      "start agent", "jump clock"};
  return kNames[static_cast<std::size_t>(kind)];
}

bool is_of_link(Kind kind) { return kind >= Kind::kCut && kind <= Kind::kRefuseCalls; }

std::string to_text(const Fault& fault) {
  std::string text = fmt::format("{} of node {}", name_of(fault.kind), fault.node);
  if (is_of_link(fault.kind)) text += fmt::format(" to node {}", fault.other);
  if (is_of_rank(fault.kind)) text += fmt::format(", local rank {}", fault.other);
  if (fault.lasts > 0) text += fmt::format(" for {:.3f} s", static_cast<double>(fault.lasts) * 1e-9);
  if (fault.much != 0) text += fmt::format(" ({})", fault.much);
  return text;
}

Nanos Plan::silence() const {
  return std::clamp<Nanos>(timeout_s * kSecond / 2, kSecond, 6 * kSecond);  // same as launch::node_silence()
}

Nanos Plan::quiet_from() const {
  Nanos quiet = 0;
  for (const Nanos start : starts) quiet = std::max(quiet, start == kNever ? 0 : start);
  for (const Fault& fault : faults) quiet = std::max(quiet, fault.at + fault.lasts);
  return quiet;
}

Nanos Plan::end_by() const {
  const Nanos round = steps * step_time * 3 / 2 + 60 * kSecond + last_call_s * kSecond;
  const auto rounds = static_cast<Nanos>(max_restarts + 2);
  // A connection slowed down by a cut may not retry until twice the cut's duration has passed.
  return quiet_from() * 3 + rounds * (round + 2 * timeout_s * kSecond) + 120 * kSecond;
}

bool Plan::must_succeed() const {
  int ends = 0;
  std::vector<int> lost;
  for (const Fault& fault : faults) {
    if (is_harmless(fault, *this)) continue;
    if (fault.kind == Kind::kKillRank || fault.kind == Kind::kFailRank) {
      ++ends;
    } else if (is_range() && fault.node != 0 &&
               (fault.kind == Kind::kKillAgent || fault.kind == Kind::kTellToLeave || fault.kind == Kind::kPreempt)) {
      lost.push_back(fault.node);
    } else {
      return false;
    }
  }
  std::sort(lost.begin(), lost.end());
  lost.erase(std::unique(lost.begin(), lost.end()), lost.end());
  const auto left = std::count_if(starts.begin(), starts.end(), [](Nanos start) { return start <= 2 * kSecond; }) -
                    static_cast<std::ptrdiff_t>(lost.size());
  // Several simultaneous faults may count as a single failure.
  return ends <= max_restarts && left >= min_nodes;
}

int Plan::must_end_with() const {
  const auto is_cause = [&](const Fault& fault) { return !is_harmless(fault, *this); };
  const auto breaks = [](const Fault& fault) { return fault.kind == Kind::kBreakRank; };
  if (std::count_if(faults.begin(), faults.end(), is_cause) != 1) return -1;
  return std::any_of(faults.begin(), faults.end(), breaks) ? static_cast<int>(ExitCode::kData) : -1;
}

int Plan::most_rounds() const {
  if (!is_range()) return 1 + max_restarts;
  return 1 + max_restarts + static_cast<int>(starts.size()) + 2 * static_cast<int>(faults.size());
}

Plan draw_plan(std::uint64_t seed, Size size) {
  Dice dice(seed * 2 + 1);
  Plan plan{.seed = seed};
  const bool is_large = size == Size::kLarge || seed % kOneIsLargeOf == kOneIsLargeOf - 1;
  draw_nodes(dice, plan, is_large);
  plan.max_restarts = static_cast<int>(dice.between(0, 3));
  plan.timeout_s = static_cast<int>(dice.chance(0.5) ? dice.between(4, 12) : dice.between(12, 60));
  plan.last_call_s = static_cast<int>(dice.between(1, 10));
  plan.takes_in_at_once = dice.chance(0.5);
  plan.steps = is_large ? dice.between(3, 12) : dice.between(5, 60);
  plan.save_every = dice.between(1, 10);
  plan.step_time = dice.between(20, 600) * kMilli;
  plan.delay = dice.between(20, 2000) * kMicro;
  const auto count = dice.chance(0.15) ? 0 : dice.between(1, 4);
  const bool is_of_start = dice.chance(0.25);
  const Nanos end = is_of_start ? 6 * kSecond : 3 * kSecond + plan.steps * plan.step_time;
  for (std::int64_t i = 0; i < count; ++i) plan.faults.push_back(draw_fault(dice, plan, 100 * kMilli, end));
  add_companions(dice, plan);
  if (plan.nodes > 1 && dice.chance(0.1)) add_pair(dice, plan);
  add_returns(dice, plan);
  if (plan.is_range() && dice.chance(0.2)) add_operator(dice, plan);
  std::stable_sort(plan.faults.begin(), plan.faults.end(), [](const Fault& a, const Fault& b) { return a.at < b.at; });
  return plan;
}

std::string to_text(const Plan& plan) {
  return fmt::format(
      "{} nodes ({}:{}) of {} ranks, {} restarts, timeout {} s, last call {} s, {} replicas, {} steps of {} ms, saved "
      "every {}",
      plan.nodes, plan.min_nodes, plan.max_nodes, fmt::join(plan.ranks, "+"), plan.max_restarts, plan.timeout_s,
      plan.last_call_s, plan.replicas, plan.steps, plan.step_time / kMilli, plan.save_every);
}

}  // namespace lockstep::sim
