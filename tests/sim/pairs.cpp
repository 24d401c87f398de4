// SPDX-License-Identifier: Apache-2.0
// Faults that belong together: each strikes at a moment when only the other makes it matter. Independent faults
// coincide like this in only one world in thousands.
#include <algorithm>
#include <array>

#include "sim/plan.h"

namespace lockstep::sim {
namespace {

using Kind = Fault::Kind;

constexpr Nanos kInTime = 2 * kSecond;  // agents that start later miss the first round

int draw_node(Dice& dice, const Plan& plan) { return static_cast<int>(dice.between(1, plan.nodes - 1)); }

// Returns the time of the first round, which begins at the last call if the group is not full. The round may begin 0.3
// s later.
Nanos first_round(const Plan& plan) {
  Nanos last = 0;
  int count = 0;
  for (const Nanos start : plan.starts) {
    if (start > kInTime) continue;
    last = std::max(last, start);
    ++count;
  }
  return last + (count < plan.max_nodes ? plan.last_call_s * kSecond : 0);
}

// A rank fails and publishes its error, and its node is lost before its agent has reported that all ranks have ended.
void lose_node_of_failed_rank(Dice& dice, Plan& plan) {
  constexpr std::array kLosses = {Kind::kKillAgent, Kind::kPowerOff, Kind::kFreezeAgent};
  Fault failure{.kind = dice.chance(0.5) ? Kind::kBreakRank : Kind::kFailRank, .node = draw_node(dice, plan)};
  failure.at = first_round(plan) + dice.between(300 * kMilli, kSecond + plan.steps * plan.step_time / 2);
  failure.other = static_cast<int>(dice.between(0, plan.ranks[static_cast<std::size_t>(failure.node)] - 1));
  Fault loss{.kind = kLosses[dice.bits() % kLosses.size()], .node = failure.node};
  loss.at = failure.at + 2 * plan.step_time;
  loss.lasts = loss.kind == Kind::kFreezeAgent ? dice.between(plan.silence(), 4 * plan.silence()) : 0;
  loss.after_error = dice.between(0, dice.chance(0.5) ? 6 * plan.delay : plan.step_time);
  plan.max_restarts = std::max(plan.max_restarts, 1);
  plan.faults.insert(plan.faults.end(), {failure, loss});
}

// Node 0's launcher is killed, restarted, and begins its first round while another agent is stopped with an unread
// order to run. The group is never full, so a round begins at the last call.
void stop_with_order_in_hand(Dice& dice, Plan& plan) {
  const int node = draw_node(dice, plan);
  plan.min_nodes = 1;
  plan.max_nodes = plan.nodes + 1;
  for (int i = 1; i < plan.nodes; ++i)
    plan.starts[static_cast<std::size_t>(i)] = i == node ? dice.between(0, kInTime) : kNever;
  const Nanos round = first_round(plan);
  Fault stop{.kind = Kind::kFreezeAgent, .at = round - dice.between(0, 700 * kMilli), .node = node};
  const Fault kill{.kind = Kind::kKillAgent, .at = round + dice.between(300 * kMilli, kSecond)};
  const Fault again{.kind = Kind::kStartAgent, .at = kill.at + dice.between(100 * kMilli, kSecond)};
  const Nanos next = again.at + plan.last_call_s * kSecond;
  stop.lasts = next - stop.at + dice.between(0, plan.steps * plan.step_time);
  plan.faults.insert(plan.faults.end(), {stop, kill, again});
}

// Node 0's launcher is stopped for slightly longer than the silence limit: another agent has given up on it and is
// stopping its ranks, but their connections are still open. The job ends with this failure, so no agent comes back to
// say what it saw.
void stop_server(Dice& dice, Plan& plan) {
  plan.min_nodes = plan.max_nodes = plan.nodes;
  plan.max_restarts = 0;
  for (Nanos& start : plan.starts) start = std::min(start, kInTime);
  plan.faults.push_back({.kind = Kind::kFreezeAgent,
                         .at = first_round(plan) + dice.between(300 * kMilli, kSecond + plan.steps * plan.step_time),
                         .lasts = plan.silence() + dice.between(0, plan.silence() / 6 + plan.step_time * 3 / 2)});
}

// The ranks' first connections are refused.
void refuse_calls(Dice& dice, Plan& plan) {
  const Nanos time = plan.silence() / 4;
  plan.faults.push_back({.kind = Kind::kRefuseCalls,
                         .at = std::max<Nanos>(0, first_round(plan) - dice.between(0, time / 2)),
                         .node = draw_node(dice, plan),
                         .lasts = time});
}

}  // namespace

void add_pair(Dice& dice, Plan& plan) {
  constexpr std::array kPairs = {lose_node_of_failed_rank, stop_with_order_in_hand, stop_server, refuse_calls};
  if (dice.chance(0.5)) plan.faults.clear();
  kPairs[dice.bits() % kPairs.size()](dice, plan);
}

}  // namespace lockstep::sim
