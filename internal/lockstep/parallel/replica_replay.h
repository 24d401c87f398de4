// SPDX-License-Identifier: Apache-2.0
// Recomputes a replica's part of a step on another rank, from a record of the values that came from the other replicas.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "lockstep/parallel/replica_team.h"

#pragma GCC visibility push(default)

namespace lockstep::parallel {

/// While it is alive, records the results of Replica::all_reduce() on this thread as bytes, in order.
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

/// Runs `body` on this thread as replica `index` of `team`; all_reduce() returns the recorded results. Throws: the
/// exceptions of `body`; InternalError if `body` needs more results than were recorded.
void replay_replica(ReplicaTeam& team, int index, std::string_view recorded, const std::function<void()>& body);

}  // namespace lockstep::parallel

#pragma GCC visibility pop
