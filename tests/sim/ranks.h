// SPDX-License-Identifier: Apache-2.0
// The ranks of a world: processes that compute make-believe steps, and the stubs between them and their agents.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/store/store.h"
#include "sim/kernel.h"

namespace lockstep::sim {

struct StubStart {
  std::vector<std::string> environment;  ///< of the rank
  int control = -1;                      ///< socket to the agent
  int output = -1;
  int errors = -1;
};

/// Starts a stub, and a rank under it, on the host of the running process. Returns the stub's pid.
pid_t start_stub(const StubStart& start);

/// A rank as the world sees it.
struct Rank {
  Process* process = nullptr;
  Process* agent = nullptr;
  int rank = 0;
  int world_size = 0;
  int round = 0;
  int served_by = -1;  ///< the process whose coordinator has begun its round
  int first_of_node = 0;
  bool is_told_to_leave = false;  ///< it got SIGTERM
  int fails_with = 0;             ///< it is to end with an error of this exit code
  Nanos hangs_for = 0;
  bool has_ended = false;
};

/// What a training step adds, over all samples, and the state's digest after it. Not of the world's size.
[[nodiscard]] std::uint64_t sample_value(std::int64_t step, std::int64_t sample);
inline constexpr std::int64_t kSamples = 24;
[[nodiscard]] std::uint64_t next_state(std::uint64_t state, std::uint64_t sum);

/// Computes the rank's steps. Returns its exit code.
int run_rank(Rank& self);

}  // namespace lockstep::sim
