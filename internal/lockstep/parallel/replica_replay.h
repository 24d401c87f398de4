// SPDX-License-Identifier: Apache-2.0
// Another rank computes a replica's part of a step again, with a record of the values from the other replicas.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "lockstep/parallel/replica_team.h"

#pragma GCC visibility push(default)

namespace lockstep::parallel {

/// While it lives, the results of Replica::all_reduce() in this thread are kept as bytes, in order.
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
