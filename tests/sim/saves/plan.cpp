// SPDX-License-Identifier: Apache-2.0
#include "sim/saves/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace lockstep::sim::saves {
namespace {

using Kind = Fault::Kind;

bool lasts(Kind kind) { return kind == Kind::kFreeze || kind >= Kind::kFull; }

double draw_much(Dice& dice, Kind kind) {
  if (kind >= Kind::kKillInSave && kind <= Kind::kFreezeInSave) return static_cast<double>(dice.between(1, 80));
  if (kind == Kind::kFull) return static_cast<double>(dice.between(0, 8000));
  if (kind == Kind::kSlow) return static_cast<double>(dice.between(10, 500));
  return lasts(kind) ? static_cast<double>(dice.between(1, 40)) / 100 : 0;
}

Kind draw_kind(Dice& dice) { return static_cast<Kind>(dice.between(0, static_cast<int>(Kind::kCount) - 1)); }

Fault draw_fault(Dice& dice, const Plan& plan, Kind kind) {
  Fault fault{.kind = kind};
  fault.at = dice.between(0, 100 * kMilli + plan.steps * (plan.step_time + 80 * plan.latency));
  fault.target = static_cast<int>(dice.between(0, std::max(plan.hosts, plan.ranks) - 1));
  fault.much = draw_much(dice, fault.kind);
  if (lasts(fault.kind)) fault.lasts = dice.between(kMilli, 1500 * kMilli);
  if (fault.kind == Kind::kFreeze) fault.lasts = dice.between(10 * kMilli, 5 * kSecond);
  if (fault.kind == Kind::kFreezeInSave) fault.lasts = 20 * kSecond;
  return fault;
}

}  // namespace

const char* name_of(Kind kind) {
  constexpr std::array<const char*, static_cast<std::size_t>(Kind::kCount)> kNames = {
      "power cut", "power off", "kill rank", "kill in save", "cut in save", "freeze in save", "freeze host",
      "give up",   "full disk", "no writes", "no syncs",     "no reads",    "no renames",     "slow disk"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string to_text(const Fault& fault) {
  std::string text = name_of(fault.kind);
  if (fault.kind == Kind::kPowerOff || fault.kind == Kind::kFreeze) text += fmt::format(" of host {}", fault.target);
  if (fault.kind == Kind::kKillRank || fault.kind == Kind::kKillInSave) text += fmt::format(" {}", fault.target);
  if (fault.lasts > 0) text += fmt::format(" for {:.3f} s", static_cast<double>(fault.lasts) * 1e-9);
  if (fault.much != 0) text += fmt::format(" ({})", fault.much);
  return text;
}

Nanos Plan::quiet_from() const {
  Nanos quiet = 0;
  for (const Fault& fault : faults) quiet = std::max(quiet, fault.at + fault.lasts);
  return quiet;
}

Plan draw_plan(std::uint64_t seed) {
  Dice dice(seed * 2 + 1);
  Plan plan{.seed = seed};
  plan.hosts = static_cast<int>(dice.between(1, 3));
  plan.is_sharded = dice.chance(0.6);
  plan.ranks = plan.is_sharded ? static_cast<int>(dice.between(1, 4)) : 1;
  plan.in_background = dice.chance(0.5);
  plan.keep_last = static_cast<int>(dice.between(1, 3));
  plan.keep_every = dice.chance(0.3) ? static_cast<int>(dice.between(2, 5)) : 0;
  plan.name_every = dice.chance(0.5) ? static_cast<int>(dice.between(1, 4)) : 0;
  plan.steps = dice.between(2, 12);
  plan.save_every = dice.between(1, 2);
  plan.step_time = dice.between(1, 60) * kMilli;
  plan.latency = dice.between(20, 2000) * kMicro;
  plan.are_containers = dice.chance(0.5);
  plan.has_run_folder = dice.chance(0.85);
  plan.has_locks = plan.has_run_folder && dice.chance(0.8);
  plan.do_locks_expire = dice.chance(0.3);
  plan.is_exact = dice.chance(0.4);
  const auto count = dice.chance(0.05) ? 0 : dice.between(1, 7);
  for (std::int64_t i = 0; i < count; ++i) plan.faults.push_back(draw_fault(dice, plan, draw_kind(dice)));
  // Without a run folder, only the next save finds what a killed process left behind.
  const int kills = plan.has_run_folder ? 0 : 3;
  for (int i = 0; i < kills; ++i) plan.faults.push_back(draw_fault(dice, plan, Kind::kKillInSave));
  std::stable_sort(plan.faults.begin(), plan.faults.end(), [](const Fault& a, const Fault& b) { return a.at < b.at; });
  return plan;
}

std::string to_text(const Plan& plan) {
  return fmt::format(
      "{} hosts{}, {} ranks{}{}, {} steps of {} ms saved every {}, the last {} kept{}{}, a call takes {} us{}{}{}{}",
      plan.hosts, plan.are_containers ? " (containers)" : "", plan.ranks, plan.is_sharded ? " that save in parts" : "",
      plan.in_background ? ", in a thread" : "", plan.steps, plan.step_time / kMilli, plan.save_every, plan.keep_last,
      plan.keep_every > 0 ? fmt::format(" and every {}", plan.keep_every) : "",
      plan.name_every > 0 ? fmt::format(", every {} is the best", plan.name_every) : "", plan.latency / kMicro,
      plan.has_run_folder ? "" : ", no run folder", plan.has_locks ? "" : ", no locks",
      plan.do_locks_expire ? ", locks expire" : "", plan.is_exact ? "" : ", each round has other bytes");
}

}  // namespace lockstep::sim::saves
