// SPDX-License-Identifier: Apache-2.0
// The plan generated from a seed: a world's nodes, its job, and its faults with their times. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/kernel.h"

namespace lockstep::sim {

struct Fault {
  enum class Kind : std::uint8_t {
    kKillAgent,    ///< SIGKILL; its ranks die with it
    kPowerOff,     ///< the host disappears without closing its connections
    kFreezeAgent,  ///< SIGSTOP, then SIGCONT later
    kFreezeHost,   ///< the host is paused, as a virtual machine might be
    kCut,          ///< the link to another host is cut in both directions
    kCutOneWay,
    kLoss,         ///< the link loses segments
    kRefuseCalls,  ///< connections of ranks over the link are refused, as if the rank were not listening yet
    kSlow,         ///< the agent's threads lose the processor now and then
    kKillRank,
    kFailRank,   ///< the rank fails with an error that a restart may fix
    kBreakRank,  ///< the rank fails with an error that would recur
    kHangRank,
    kTellToLeave,  ///< SIGTERM to an agent: an operator removes its node
    kPreempt,      ///< SIGTERM to an agent; its host disappears after the notice period
    kStartAgent,   ///< starts or restarts a node's agent
    kJumpClock,    ///< a host's wall clock jumps
    kCount
  };
  Kind kind = Kind::kKillAgent;
  Nanos at = 0;
  int node = 0;
  int other = 0;           ///< the other end of a link, or the local rank
  Nanos lasts = 0;         ///< 0: forever; for a preemption, the notice period
  double much = 0;         ///< loss, slowness, or seconds of a clock jump
  Nanos after_error = -1;  ///< if not negative, the delay after the first error published by a rank; replaces `at`
};

[[nodiscard]] const char* name_of(Fault::Kind kind);
[[nodiscard]] bool is_of_link(Fault::Kind kind);
[[nodiscard]] bool is_of_rank(Fault::Kind kind);
[[nodiscard]] std::string to_text(const Fault& fault);

struct Plan {
  std::uint64_t seed = 0;
  int nodes = 2;      ///< hosts
  int max_nodes = 2;  ///< MAX of --nnodes
  int min_nodes = 2;
  std::vector<int> ranks;  ///< number of ranks per node
  int max_restarts = 0;
  int timeout_s = 30;  ///< LOCKSTEP_TIMEOUT
  int last_call_s = 5;
  bool takes_in_at_once = false;
  int replicas = 0;  ///< number of replicas announced by the program; 0: none
  std::int64_t steps = 20;
  std::int64_t save_every = 5;
  Nanos step_time = 100 * kMilli;
  Nanos delay = 100 * kMicro;  ///< link delay
  std::vector<Nanos> starts;   ///< when each node's agent starts; kNever: only started by a fault
  std::vector<Fault> faults;   ///< sorted by time

  [[nodiscard]] bool is_range() const { return min_nodes != max_nodes; }
  /// Returns the time after which a silent node is considered lost.
  [[nodiscard]] Nanos silence() const;
  /// Returns the moment at which the last fault is over.
  [[nodiscard]] Nanos quiet_from() const;
  /// Returns the moment by which the job must have ended.
  [[nodiscard]] Nanos end_by() const;
  /// Returns true if the job must reach its last step despite the faults.
  [[nodiscard]] bool must_succeed() const;
  /// Returns the exit code that every agent must have if a rank fails with an error that would recur and no other fault
  /// matters; -1 if the code is unknown.
  [[nodiscard]] int must_end_with() const;
  /// Returns the maximum number of rounds allowed.
  [[nodiscard]] int most_rounds() const;
};

/// World sizes. kAsDrawn: one world in 200 has 9 to 64 nodes with 1 to 8 ranks each.
enum class Size : std::uint8_t { kAsDrawn, kLarge };
/// Adds faults that belong together, and adapts the plan to them. The plan must have at least two nodes.
void add_pair(Dice& dice, Plan& plan);
[[nodiscard]] Plan draw_plan(std::uint64_t seed, Size size = Size::kAsDrawn);
[[nodiscard]] std::string to_text(const Plan& plan);

}  // namespace lockstep::sim
