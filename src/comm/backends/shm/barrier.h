// SPDX-License-Identifier: Apache-2.0
// The barrier of all ranks in the segment: a rank arrives, waits for the others, and finds late, dead or gone ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "comm/backends/shm/health.h"

namespace lockstep::comm {

/// A meeting of all ranks, without a lock. Each rank's slot in the segment has two counters: `arrived`, the meetings
/// that the rank has reached (only that rank writes it, and it only grows; it may wrap, so counts are compared by their
/// difference), and `waiters`, the number of ranks that sleep until `arrived` changes.
///
/// States on one rank: outside -> arrived (its `arrived` equals `target_`) -> waiting for one rank after another, first
/// spinning, then asleep -> met, or failed. An arriving rank stores `arrived` before it reads `waiters`, and a sleeper
/// increments `waiters` before it reads `arrived`, both seq_cst, so that no wake-up is lost. If the rank that should
/// wake it has died, the sleeper notices on its own, since it checks every 50 ms. Once meet() has returned, every rank
/// has arrived at this meeting, and all its earlier writes may be read. Once meet() has thrown, the failure is in the
/// segment and later calls throw.
///
/// Thread-safe: no; one collective at a time.
class Barrier {
 public:
  Barrier(std::shared_ptr<Segment> segment, const World& world);

  /// Publishes this rank's writes so far, and waits until all ranks have done the same.
  /// Throws: PeerError, TimeoutError, UsageError: the group's failure.
  void meet(const Collective& collective);

  [[nodiscard]] const GroupHealth& health() const noexcept { return health_; }

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;
  [[nodiscard]] bool has_arrived(int rank) noexcept;
  [[nodiscard]] bool spin(int rank, std::chrono::nanoseconds limit) noexcept;
  [[nodiscard]] std::chrono::nanoseconds spin_limit(bool caller_waits) const noexcept;
  void sleep_until_arrived(int rank, const Collective& collective);
  [[nodiscard]] std::vector<LateRank> late_ranks();

  std::shared_ptr<Segment> segment_;
  GroupHealth health_;
  const int rank_;
  const int world_;
  bool may_spin_ = false;
  std::uint32_t vain_spins_ = 0;  ///< consecutive spins that ended without success
  std::uint32_t target_ = 0;      ///< meetings so far, which every rank's `arrived` must reach
};

}  // namespace lockstep::comm
