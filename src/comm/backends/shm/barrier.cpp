// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/shm/barrier.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/backends/shm/futex.h"
#include "lockstep/base/awake_clock.h"
#include "lockstep/base/control_group.h"
#include "lockstep/base/error.h"
#include "lockstep/base/invariant.h"

namespace lockstep::comm {
namespace {

// A sleeper checks again at this interval even if no rank wakes it, which bounds the delay if the waking rank died.
constexpr auto kBarrierSlice = std::chrono::milliseconds(50);
// A blocked caller has a core to itself, so it may spin for longer than ranks usually have to wait for each other. The
// communication thread takes its core from backward, so it spins only for about the cost of a sleep.
constexpr auto kCallerSpin = std::chrono::microseconds(40);
constexpr auto kThreadSpin = std::chrono::microseconds(3);
constexpr std::uint32_t kVainSpins = 4;

}  // namespace

Barrier::Barrier(std::shared_ptr<Segment> segment, const World& world)
    : segment_(std::move(segment)),
      health_(segment_, world),
      rank_(world.rank),
      world_(world.size),
      may_spin_(usable_cpus() >= world.size) {}

bool Barrier::has_arrived(int rank) noexcept {
  // seq_cst pairs with the store in meet(): either the sleeper sees the arrival or the arriver sees the sleeper.
  const std::uint32_t arrived = segment_->slot(rank).arrived.load(std::memory_order_seq_cst);
  return static_cast<std::int32_t>(arrived - target_) >= 0;
}

void Barrier::meet(const Collective& collective) {
  health_.check(collective);
  ++target_;
  RankSlot& own_slot = segment_->slot(rank_);
  // Two threads, or two ranks with the same number, would let other ranks pass too early.
  LOCKSTEP_INVARIANT(own_slot.arrived.load(std::memory_order_relaxed) + 1 == target_, "rank {} of {}, meeting {}",
                     rank_, world_, target_);
  own_slot.arrived.store(target_, std::memory_order_seq_cst);
  if (own_slot.waiters.load(std::memory_order_seq_cst) != 0) futex_wake(own_slot.arrived);
  const auto limit = spin_limit(collective.caller_waits);
  for (int rank = 0; rank < world_; ++rank) {
    if (has_arrived(rank) || (may_spin_ && spin(rank, limit))) continue;
    sleep_until_arrived(rank, collective);
  }
}

// Returns how long to spin. Spinning fails if ranks share a core; in that case it is tried only occasionally.
std::chrono::nanoseconds Barrier::spin_limit(bool caller_waits) const noexcept {
  if (!caller_waits || (vain_spins_ > kVainSpins && vain_spins_ % 16 != 0)) return kThreadSpin;
  return kCallerSpin;
}

bool Barrier::spin(int rank, std::chrono::nanoseconds limit) noexcept {
  const SteadyTime end = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < 16; ++i) {
      if (has_arrived(rank)) {
        vain_spins_ = 0;
        return true;
      }
      spin_pause();
    }
  }
  ++vain_spins_;
  return false;
}

void Barrier::sleep_until_arrived(int rank, const Collective& collective) {
  RankSlot& slot = segment_->slot(rank);
  slot.waiters.fetch_add(1, std::memory_order_seq_cst);
  while (!has_arrived(rank)) {
    const TimePoint now = AwakeClock::instance().now();
    const bool gone = health_.has_left(rank) && !has_arrived(rank);
    if (gone || now >= end_of(collective) || health_.failed()) break;
    const std::uint32_t seen = slot.arrived.load(std::memory_order_seq_cst);
    if (has_arrived(rank)) break;
    futex_wait(slot.arrived, seen, std::min<std::chrono::nanoseconds>(kBarrierSlice, end_of(collective) - now));
  }
  slot.waiters.fetch_sub(1, std::memory_order_seq_cst);
  if (has_arrived(rank)) return;
  health_.check(collective);
  if (health_.has_left(rank)) health_.fail_left(rank, collective);
  health_.fail_timeout(collective, late_ranks());
}

std::vector<LateRank> Barrier::late_ranks() {
  std::vector<LateRank> late;
  for (int rank = 0; rank < world_; ++rank) {
    if (has_arrived(rank)) continue;
    const std::uint64_t finished = segment_->slot(rank).finished.load(std::memory_order_acquire);
    late.push_back({rank, fmt::format("last finished operation {}", finished)});
  }
  return late;
}

}  // namespace lockstep::comm
