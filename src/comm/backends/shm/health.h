// SPDX-License-Identifier: Apache-2.0
// The failure of a group in shared memory: the first rank that notices writes the reason, and all throw the same error.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/backends/shm/segment.h"
#include "comm/core/failure.h"

namespace lockstep::comm {

/// Stores and throws the failure of a group in shared memory. Thread-safe: yes.
class GroupHealth {
 public:
  GroupHealth(std::shared_ptr<Segment> segment, World world) : segment_(std::move(segment)), world_(std::move(world)) {}

  [[nodiscard]] bool failed() const noexcept { return segment_->has_failed(); }
  [[nodiscard]] bool has_left(int rank) const noexcept;

  /// Throws the group's failure, if there is one.
  void check(const Collective& collective) const;

  /// Fails the group because `rank` left normally and will not arrive. Throws: PeerError.
  [[noreturn]] void fail_left(int rank, const Collective& collective) const;
  /// Fails the group. Throws: TimeoutError naming the late ranks.
  [[noreturn]] void fail_timeout(const Collective& collective, std::vector<LateRank> late) const;
  /// Fails the group. Throws: UsageError naming both calls.
  [[noreturn]] void fail_mismatch(const Collective& collective, int other, const Descriptor& other_call) const;

 private:
  [[noreturn]] void throw_failure(const FailureRecord& failure, const Collective& collective) const;

  std::shared_ptr<Segment> segment_;
  World world_;
};

}  // namespace lockstep::comm
