// SPDX-License-Identifier: Apache-2.0
// The meeting of all ranks in the segment: arrive, wait for the others, find out who is late, dead or gone.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "comm/backends/shm/health.h"

namespace lockstep::comm {

/// Thread-safe: no; one collective at a time.
class Barrier {
 public:
  Barrier(std::shared_ptr<Segment> segment, const World& world);

  /// Tells the others that this rank's writes so far may be read, and returns when all have said so.
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
  std::uint32_t vain_spins_ = 0;  ///< in a row
  std::uint32_t target_ = 0;      ///< meetings so far; what every rank's `arrived` must reach
};

}  // namespace lockstep::comm
