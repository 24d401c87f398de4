// SPDX-License-Identifier: Apache-2.0
#include "launch/hangs/hang.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "launch/hangs/late_stacks.h"
#include "launch/hangs/process_state.h"
#include "launch/nodes/addresses.h"
#include "lockstep/base/env.h"
#include "lockstep/base/log.h"
#include "lockstep/flight/calls.h"
#include "lockstep/flight/verdict.h"

namespace lockstep::launch {
namespace {

std::string hint_of(const flight::Verdict& verdict, std::int64_t timeout_ns) {
  if (verdict.section.empty()) {
    const std::string limit =
        timeout_ns > 0 ? fmt::format(" (now {} s)", static_cast<double>(timeout_ns) * 1e-9) : " (seconds)";
    return fmt::format("look at what that rank does; if it may take so long, raise {}{}", env::timeout_variable(),
                       limit);
  }
  return fmt::format(
      "look at what that rank does; if it may take so long, set LOCKSTEP_SECTION_TIMEOUT='{}=SECONDS' (0: "
      "any time)",
      verdict.section);
}

constexpr const char* kLeftHint =
    "every rank must call the same collectives; uneven data: Join, or the same number of batches on each rank";
constexpr const char* kOddHint = "look for a branch that depends on the rank or its data, with a collective in it";

// A process is in uninterruptible sleep for a moment whenever it reads from a disk: who stays there hangs.
constexpr auto kSecondLook = std::chrono::milliseconds(100);

template <class Judge>
std::optional<Finding> found_by(const std::vector<WatchedRank>& ranks, const Judge& judge) {
  auto facts = states_of(ranks);
  auto verdict = judge(facts);
  if (verdict && verdict->cause == flight::Cause::kUninterruptible) {
    std::this_thread::sleep_for(kSecondLook);
    facts = states_of(ranks);
    verdict = judge(facts);
  }
  return finding_of(verdict, facts);
}

Finding found(int rank, const std::string& text, const std::string& hint, ExitCode code) {
  log::warn("{}", text);
  const char* type = code == ExitCode::kTimeout ? "TimeoutError" : code == ExitCode::kPeer ? "PeerError" : "UsageError";
  return {
      .record =
          {.kind = FailureKind::kHang, .type = type, .message = text, .hint = hint, .rank = rank, .host = host_name()},
      .code = code};
}

}  // namespace

std::int64_t timeout_of(const std::vector<flight::RankFacts>& ranks) {
  std::int64_t timeout = 0;
  for (const flight::RankFacts& rank : ranks) timeout = std::max(timeout, rank.ring ? rank.ring->timeout_ns : 0);
  return timeout;
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

std::optional<Finding> finding_of(const std::optional<flight::Verdict>& verdict,
                                  const std::vector<flight::RankFacts>& facts) {
  if (!verdict) return std::nullopt;
  const bool has_left = verdict->cause == flight::Cause::kLeft;
  if (has_left) return found(verdict->rank, verdict->text, kLeftHint, ExitCode::kPeer);
  return found(verdict->rank, verdict->text, hint_of(*verdict, timeout_of(facts)), ExitCode::kTimeout);
}

std::optional<Finding> find_hang(const std::vector<WatchedRank>& ranks) {
  return found_by(ranks, [](const auto& facts) { return flight::judge(facts, flight::now_ns()); });
}

std::optional<Finding> find_stopped(const std::vector<WatchedRank>& ranks) {
  const auto facts = states_of(ranks);
  if (std::none_of(facts.begin(), facts.end(), flight::is_stopped)) return std::nullopt;
  return finding_of(flight::judge(facts, flight::now_ns()), facts);
}

std::optional<Finding> find_hang_for(const FailureRecord& claim, const std::vector<WatchedRank>& ranks) {
  if (claim.kind != FailureKind::kTimeout) return std::nullopt;
  const flight::Waiter waiter{claim.rank, claim.host, claim.message.substr(0, claim.message.find(' '))};
  return found_by(ranks, [&](const auto& facts) { return flight::judge_for(waiter, facts, flight::now_ns()); });
}

std::optional<Finding> find_left(const std::vector<WatchedRank>& ranks) {
  const auto facts = states_of(ranks);
  const auto verdict = flight::judge(facts, flight::now_ns());
  if (!verdict || verdict->cause != flight::Cause::kLeft) return std::nullopt;
  const bool has_succeeded = std::any_of(ranks.begin(), ranks.end(), [&](const WatchedRank& rank) {
    return rank.rank == verdict->rank && rank.has_succeeded;
  });
  return has_succeeded ? finding_of(verdict, facts) : std::nullopt;
}

void add_stacks(Finding& finding, const std::vector<WatchedRank>& ranks) {
  if (finding.code != ExitCode::kTimeout || !wants_stacks()) return;
  for (const WatchedRank& rank : ranks) {
    if (rank.rank != finding.record.rank || rank.has_ended) continue;
    const auto ring = rank.ring->state();
    const pid_t pid = ring ? ring->pid : rank.pid;
    const auto process = read_process(pid);
    if (!process || process->has_ended) continue;
    finding.stacks = stacks_of({.pid = pid, .state = process->state, .stack_file = rank.stack_file}, system_sources());
  }
}

std::optional<Finding> find_odd(const std::vector<WatchedRank>& ranks) {
  std::vector<flight::RankFacts> facts = states_of(ranks);
  for (std::size_t i = 0; i < ranks.size(); ++i) facts[i].ring = ranks[i].ring->read();
  const auto odd = flight::find_odd_call(facts);
  if (!odd) return std::nullopt;
  return found(odd->rank, odd->text, kOddHint, ExitCode::kUsage);
}

}  // namespace lockstep::launch
