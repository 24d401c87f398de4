// SPDX-License-Identifier: Apache-2.0
#include "launch/hangs/hang.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "launch/hangs/late_stacks.h"
#include "launch/hangs/process_state.h"
#include "launch/nodes/addresses.h"
#include "lockstep/base/log.h"
#include "lockstep/flight/verdict.h"

namespace lockstep::launch {
namespace {

// A process reading from a disk is uninterruptible for a moment; if it still is at the second check, it is hanging.
constexpr auto kSecondLook = std::chrono::milliseconds(100);

bool is_at_a_disk(const std::vector<flight::RankFacts>& facts, int rank) {
  return std::any_of(facts.begin(), facts.end(),
                     [&](const auto& each) { return each.rank == rank && each.process.state == 'D'; });
}

}  // namespace

std::optional<FailureRecord> warned(std::optional<FailureRecord> found) {
  if (found) log::warn("{}", found->message);
  return found;
}

std::vector<flight::RankFacts> states_of(const std::vector<WatchedRank>& ranks) {
  std::vector<flight::RankFacts> facts;
  for (const WatchedRank& rank : ranks) {
    flight::RankFacts each{.rank = rank.rank, .host = host_name(), .ring = rank.ring->state()};
    const pid_t pid = each.ring ? each.ring->pid : rank.pid;
    const auto process = rank.has_ended ? std::nullopt : read_process(pid);
    each.process = process.value_or(flight::ProcessState{.has_ended = true});
    facts.push_back(std::move(each));
  }
  return facts;
}

std::optional<FailureRecord> find_hang(const std::vector<WatchedRank>& ranks, const FailureRecord* waiter) {
  if (waiter != nullptr && waiter->kind != FailureKind::kTimeout) return std::nullopt;
  auto facts = states_of(ranks);
  auto verdict = flight::judge(facts, flight::now_ns(), waiter);
  if (verdict && is_at_a_disk(facts, verdict->rank)) {
    std::this_thread::sleep_for(kSecondLook);
    verdict = flight::judge(states_of(ranks), flight::now_ns(), waiter);
  }
  return warned(verdict);
}

std::optional<FailureRecord> find_stopped(const std::vector<WatchedRank>& ranks) {
  const auto facts = states_of(ranks);
  if (std::none_of(facts.begin(), facts.end(), flight::is_stopped)) return std::nullopt;
  return warned(flight::judge(facts, flight::now_ns()));
}

std::optional<FailureRecord> find_left(const std::vector<WatchedRank>& ranks) {
  const auto verdict = flight::judge(states_of(ranks), flight::now_ns());
  if (!verdict || verdict->type != "PeerError") return std::nullopt;
  const bool has_succeeded = std::any_of(ranks.begin(), ranks.end(), [&](const WatchedRank& rank) {
    return rank.rank == verdict->rank && rank.has_succeeded;
  });
  return has_succeeded ? warned(verdict) : std::nullopt;
}

std::vector<std::string> stacks_of_late(const FailureRecord& found, const std::vector<WatchedRank>& ranks) {
  if (found.type != "TimeoutError" || !wants_stacks()) return {};
  for (const WatchedRank& rank : ranks) {
    if (rank.rank != found.rank || rank.has_ended) continue;
    const auto ring = rank.ring->state();
    const pid_t pid = ring ? ring->pid : rank.pid;
    const auto process = read_process(pid);
    if (!process || process->has_ended) continue;
    return stacks_of({.pid = pid, .state = process->state, .stack_file = rank.stack_file}, system_sources());
  }
  return {};
}

std::optional<FailureRecord> find_odd(const std::vector<WatchedRank>& ranks) {
  std::vector<flight::RankFacts> facts = states_of(ranks);
  for (std::size_t i = 0; i < ranks.size(); ++i) facts[i].ring = ranks[i].ring->read();
  return warned(flight::find_odd_call(facts));
}

}  // namespace lockstep::launch
