// SPDX-License-Identifier: Apache-2.0
// A replica's part of a step, computed again by another rank: what it got from the other replicas is recorded.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "lockstep/parallel/replica_team.h"

#pragma GCC visibility push(default)

namespace lockstep::parallel {

/// While it lives, what Replica::all_reduce() gives in this thread is kept as bytes, in order.
class ReductionRecorder {
 public:
  ReductionRecorder();
  ~ReductionRecorder();
  ReductionRecorder(const ReductionRecorder&) = delete;
  ReductionRecorder& operator=(const ReductionRecorder&) = delete;

  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// Runs `body` in this thread as replica `index` of `team`; all_reduce() returns the recorded results. Throws: what
/// `body` throws; InternalError if it asks for more than was recorded.
void replay_replica(ReplicaTeam& team, int index, std::string_view recorded, const std::function<void()>& body);

}  // namespace lockstep::parallel

#pragma GCC visibility pop
