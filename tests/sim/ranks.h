// SPDX-License-Identifier: Apache-2.0
// The ranks of a world: processes that compute simulated steps, and the stubs between them and their agents.
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
  std::vector<std::string> environment;  ///< the rank's environment
  int control = -1;                      ///< socket connected to the agent
  int output = -1;
  int errors = -1;
};

/// Starts a stub, with a rank under it, on the running process's host. Returns the stub's pid.
pid_t start_stub(const StubStart& start);

/// A rank as the world sees it.
struct Rank {
  Process* process = nullptr;
  Process* agent = nullptr;
  int rank = 0;
  int world_size = 0;
  int round = 0;
  int served_by = -1;  ///< the process whose coordinator began its round
  int first_of_node = 0;
  bool is_told_to_leave = false;  ///< true after SIGTERM
  int fails_with = 0;             ///< exit code of the error it is to fail with
  Nanos hangs_for = 0;
  bool has_ended = false;
};

/// Returns what a sample contributes to a training step, regardless of the world size.
[[nodiscard]] std::uint64_t sample_value(std::int64_t step, std::int64_t sample);
inline constexpr std::int64_t kSamples = 24;
[[nodiscard]] std::uint64_t next_state(std::uint64_t state, std::uint64_t sum);

/// Runs the rank's steps. Returns the exit code.
int run_rank(Rank& self);

}  // namespace lockstep::sim
