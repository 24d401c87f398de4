// SPDX-License-Identifier: Apache-2.0
#include "launch/hangs/hang_watch.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>

#include "launch/hangs/process_tree.h"
#include "launch/nodes/addresses.h"
#include "lockstep/base/env.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/flight/watch.h"

namespace lockstep::launch {
namespace {

// By this time, a rank that uses Lockstep has usually started its ring. Other nodes are not asked before then.
constexpr auto kTimeToBegin = std::chrono::seconds(10);
constexpr std::chrono::nanoseconds kLongest = std::chrono::seconds(1);
constexpr std::chrono::nanoseconds kShortest = std::chrono::milliseconds(50);
constexpr std::int64_t kSayFirst = 30'000'000'000;
constexpr std::int64_t kSayAgain = 60'000'000'000;

// Returns the interval between checks, short enough that the ranks learn of a long-running operation before they give
// up. `timeout_ns` is 0 until a rank has started its ring: it may start, and save, soon after this check.
std::chrono::nanoseconds interval_for(std::int64_t timeout_ns) {
  const std::chrono::nanoseconds own = env::collective_timeout();
  return std::clamp((timeout_ns == 0 ? own : std::chrono::nanoseconds(timeout_ns)) / 8, kShortest, kLongest);
}

// Returns the CPU time used by all processes this process started, including ranks that have ended.
double processor_seconds() {
  ProcessTree tree;
  std::uint64_t ticks = 0;
  if (tree.read()) {
    for (std::size_t i = 0; i < tree.size(); ++i) ticks += tree[i].is_descendant ? tree[i].ticks : 0;
  }
  return static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

bool any_waits(const std::vector<flight::RankFacts>& ranks) {
  return std::any_of(ranks.begin(), ranks.end(), [](const flight::RankFacts& rank) {
    return rank.ring && std::any_of(rank.ring->lanes.begin(), rank.ring->lanes.end(),
                                    [](const flight::Lane& lane) { return lane.is_running(); });
  });
}

}  // namespace

void HangWatch::be_patient(TimePoint now, const std::vector<WatchedRank>& ranks, std::int64_t timeout_ns) {
  const auto longest = std::max<std::chrono::nanoseconds>(3 * interval_, std::chrono::nanoseconds(timeout_ns));
  const std::int64_t until = (now + longest).time_since_epoch().count();
  for (const WatchedRank& rank : ranks) rank.ring->set_patience(until);
}

void HangWatch::say(const std::optional<flight::Stall>& stall, std::int64_t now_ns, std::int64_t timeout_ns) {
  if (!stall) return;
  if (stall->since_ns != stall_ns_) {
    stall_ns_ = stall->since_ns;
    say_next_ns_ = stall_ns_ + kSayFirst;
  }
  say_next_ns_ = std::max(say_next_ns_, watched_since_.time_since_epoch().count() + kSayFirst);
  if (now_ns < say_next_ns_) return;
  say_next_ns_ = now_ns + kSayAgain;
  const std::string limit = timeout_ns == 0 || stall->text.find("; limit ") != std::string::npos
                                ? ""
                                : fmt::format("; {} ends the wait after {}", env::timeout_variable(),
                                              text::duration(static_cast<double>(timeout_ns) * 1e-9));
  log::note("{}{}", stall->text, limit);
}

// Returns true if other nodes are active. Ranks of this node may be waiting for ranks that only another launcher sees.
bool HangWatch::others_are_active(std::chrono::nanoseconds silence) {
  constexpr auto kTimeToHear = std::chrono::seconds(5);
  if (!link_) return false;
  if (!activity_) activity_ = make_link_("activity");
  if (silence >= kSaidAfter - kTimeToHear) return activity_->ask(SystemClock::instance().now());
  activity_->publish();
  return false;
}

// Reports silent ranks that do not use Lockstep; the others' rings already show what they are waiting for.
void HangWatch::watch_silence(TimePoint awake, const std::vector<WatchedRank>& ranks, std::uint64_t output) {
  std::vector<SilentRank> living;
  for (const WatchedRank& rank : ranks) {
    if (rank.ring->has_begun()) return;
    if (!rank.has_ended) living.push_back({rank.rank, rank.pid});
  }
  if (living.empty()) return;
  if (!without_ring_since_) without_ring_since_ = awake;
  const auto silence = silence_.look(awake, {.output = output, .ranks = living.size(), .cpu_s = processor_seconds});
  if (awake - *without_ring_since_ < kTimeToBegin || others_are_active(silence.value_or(std::chrono::nanoseconds(0))))
    return;
  if (silence && silence_.is_news(*silence)) log::note("{}", silence_text(living, host_name(), *silence));
}

std::optional<FailureRecord> HangWatch::look(TimePoint now, const std::vector<WatchedRank>& ranks,
                                             std::uint64_t output) {
  const auto stopped = awake_.stopped();
  watch_silence(awake_.at(now), ranks, output);
  if (watched_since_ == TimePoint{} || awake_.stopped() != stopped) watched_since_ = now;
  const flight::WatchFacts facts{.ranks = states_of(ranks),
                                 .now_ns = now.time_since_epoch().count(),
                                 .watched_since_ns = watched_since_.time_since_epoch().count()};
  const std::int64_t timeout_ns = flight::timeout_of(facts.ranks);
  interval_ = interval_for(timeout_ns);
  due_ = now + interval_;
  const bool has_own = flight::has_long_work(facts);
  if (has_own && link_) link_->publish();
  const bool has_others = !has_own && link_ && any_waits(facts.ranks) && link_->ask(now);
  if (has_own || has_others) be_patient(now, ranks, timeout_ns);
  say(flight::longest_stall(facts), facts.now_ns, timeout_ns);
  return warned(flight::judge_sections(facts));
}

}  // namespace lockstep::launch
