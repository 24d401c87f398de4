// SPDX-License-Identifier: Apache-2.0
// The plan that a seed determines: the nodes of a world, its job, and the faults with their times. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/kernel.h"

namespace lockstep::sim {

struct Fault {
  enum class Kind : std::uint8_t {
    kKillAgent,    ///< SIGKILL; its ranks die with it
    kPowerOff,     ///< the host is gone without a goodbye
    kFreezeAgent,  ///< SIGSTOP, and SIGCONT later
    kFreezeHost,   ///< the host is paused, as a virtual machine may be
    kCut,          ///< the link to another host is cut, both ways
    kCutOneWay,
    kLoss,         ///< the link loses segments
    kRefuseCalls,  ///< calls of ranks over the link are refused, as while a rank does not listen yet
    kSlow,         ///< threads of the agent lose the processor now and then
    kKillRank,
    kFailRank,   ///< the rank fails with an error that a restart may mend
    kBreakRank,  ///< the rank fails with an error that would come again
    kHangRank,
    kTellToLeave,  ///< SIGTERM to an agent: an operator takes its node out
    kPreempt,      ///< SIGTERM to an agent; its host is gone after the notice
    kStartAgent,   ///< starts the agent of a node, for the first time or again
    kJumpClock,    ///< the wall clock of a host jumps
    kCount
  };
  Kind kind = Kind::kKillAgent;
  Nanos at = 0;
  int node = 0;
  int other = 0;    ///< the other end of a link, or the local rank
  Nanos lasts = 0;  ///< 0: for ever; for a preemption the time of notice
  double much = 0;  ///< loss, slowness, or the seconds of a jump
  Nanos after_error =
      -1;  ///< if not negative, it comes so long after the first error that a rank publishes, not at `at`
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
  std::vector<int> ranks;  ///< number of ranks, by node
  int max_restarts = 0;
  int timeout_s = 30;  ///< LOCKSTEP_TIMEOUT
  int last_call_s = 5;
  bool takes_in_at_once = false;
  int replicas = 0;  ///< number of replicas that the program announces; 0: none
  std::int64_t steps = 20;
  std::int64_t save_every = 5;
  Nanos step_time = 100 * kMilli;
  Nanos delay = 100 * kMicro;  ///< delay of a link
  std::vector<Nanos> starts;   ///< start of each node's agent; kNever: only a fault starts it
  std::vector<Fault> faults;   ///< sorted by time

  [[nodiscard]] bool is_range() const { return min_nodes != max_nodes; }
  /// Returns the time after which a silent node counts as lost.
  [[nodiscard]] Nanos silence() const;
  /// Returns the moment at which the last fault is over.
  [[nodiscard]] Nanos quiet_from() const;
  /// Returns the moment by which the job must have ended.
  [[nodiscard]] Nanos end_by() const;
  /// Returns true if the job must reach its last step in spite of the faults.
  [[nodiscard]] bool must_succeed() const;
  /// Returns the exit code that every agent must have if a rank fails with an error that would come again, and that is
  /// the only fault that matters; -1 if the code is unknown.
  [[nodiscard]] int must_end_with() const;
  /// Returns the largest number of rounds that is allowed.
  [[nodiscard]] int most_rounds() const;
};

/// The size of a world. kAsDrawn: one world in 200 has 9 to 64 nodes with 1 to 8 ranks each.
enum class Size : std::uint8_t { kAsDrawn, kLarge };
/// Adds faults that belong together, and adapts the plan to them. There are at least two nodes.
void add_pair(Dice& dice, Plan& plan);
[[nodiscard]] Plan draw_plan(std::uint64_t seed, Size size = Size::kAsDrawn);
[[nodiscard]] std::string to_text(const Plan& plan);

}  // namespace lockstep::sim
