// SPDX-License-Identifier: Apache-2.0
#include "comm/shm/barrier.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

#include "comm/shm/futex.h"
#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

// A sleeper looks again this often even when nobody wakes it: the bound on a wake-up lost to a process that died.
constexpr auto kSlice = std::chrono::milliseconds(50);
// A blocked caller has a core to itself and may spin past the usual skew; the communication thread takes the core from
// backward, so it spins only about as long as going to sleep would cost.
constexpr auto kCallerSpin = std::chrono::microseconds(40);
constexpr auto kThreadSpin = std::chrono::microseconds(3);
constexpr std::uint32_t kVainSpins = 4;

int usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

}  // namespace

Barrier::Barrier(std::shared_ptr<Segment> segment, World world)
    : segment_(std::move(segment)), world_(std::move(world)), may_spin_(usable_cores() >= world_.size) {}

bool Barrier::has_arrived(int rank) noexcept {
  // seq_cst pairs with the store in meet(): either the sleeper sees the arrival or the arriver sees the sleeper.
  const std::uint32_t arrived = segment_->slot(rank).arrived.load(std::memory_order_seq_cst);
  return static_cast<std::int32_t>(arrived - target_) >= 0;
}

void Barrier::meet(const Collective& collective) {
  check(collective);
  ++target_;
  RankSlot& mine = segment_->slot(world_.rank);
  mine.arrived.store(target_, std::memory_order_seq_cst);
  if (mine.waiters.load(std::memory_order_seq_cst) != 0) futex_wake(mine.arrived);
  const auto limit = spin_limit(collective.caller_waits);
  for (int rank = 0; rank < world_.size; ++rank) {
    if (has_arrived(rank) || (may_spin_ && spin(rank, limit))) continue;
    sleep_until_arrived(rank, collective);
  }
}

// Spinning is vain where the ranks have to share a core after all; then it is tried only now and then.
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
    const SteadyTime now = std::chrono::steady_clock::now();
    const bool gone = slot.left.load(std::memory_order_acquire) != 0 && !has_arrived(rank);
    if (gone || now >= collective.deadline || segment_->failure().kind != FailureKind::kNone) break;
    const std::uint32_t seen = slot.arrived.load(std::memory_order_seq_cst);
    if (has_arrived(rank)) break;
    futex_wait(slot.arrived, seen, std::min<std::chrono::nanoseconds>(kSlice, collective.deadline - now));
  }
  slot.waiters.fetch_sub(1, std::memory_order_seq_cst);
  if (has_arrived(rank)) return;
  check(collective);
  if (slot.left.load(std::memory_order_acquire) != 0) {
    segment_->fail(FailureKind::kFailed, rank, "it left the job while others still called collectives");
    check(collective);
  }
  fail_timeout(collective);
}

void Barrier::check(const Collective& collective) {
  const GroupFailure failure = segment_->failure();
  if (failure.kind != FailureKind::kNone) throw_failure(failure, collective);
}

void Barrier::fail_timeout(const Collective& collective) {
  std::vector<LateRank> late;
  for (int rank = 0; rank < world_.size; ++rank) {
    if (has_arrived(rank)) continue;
    const std::uint64_t finished = segment_->slot(rank).finished.load(std::memory_order_acquire);
    late.push_back({rank, fmt::format("last finished operation {}", finished)});
  }
  if (late.empty()) late.push_back({world_.rank, "which came too late itself"});
  const TimeoutError error = timeout_error(world_, collective, late);
  segment_->fail(FailureKind::kTimeout, late.front().rank, error.message());
  check(collective);
  throw error;
}

void Barrier::fail_mismatch(const Collective& collective, int other, const Descriptor& theirs) {
  const UsageError error = mismatch_error(world_, collective.what, other, theirs);
  segment_->fail(FailureKind::kMismatch, other, error.message());
  throw error;
}

void Barrier::throw_failure(const GroupFailure& failure, const Collective& collective) {
  const std::string words = segment_->slot(failure.reporter).words;
  const std::string host = static_cast<std::size_t>(failure.subject) < world_.hosts.size()
                               ? world_.hosts[static_cast<std::size_t>(failure.subject)]
                               : "";
  switch (failure.kind) {
    case FailureKind::kFailed:
      throw PeerError(failure_text(world_, {failure.subject, host, words}, collective));
    case FailureKind::kTimeout:
      throw TimeoutError(words,
                         "look at what the late rank does; if it may take so long, raise LOCKSTEP_TIMEOUT (seconds)");
    case FailureKind::kMismatch:
      throw UsageError(words);
    default:
      throw PeerError(death_text(world_, failure.subject, collective));
  }
}

}  // namespace lockstep::comm
