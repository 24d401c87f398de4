// SPDX-License-Identifier: Apache-2.0
// What a seed makes of a world: its nodes, its job, and what goes wrong when. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/kernel.h"

namespace lockstep::sim {

struct Fault {
  enum class Kind : std::uint8_t {
    kKillAgent,    ///< SIGKILL; its ranks die with it
    kPowerOff,     ///< the host is gone without a word
    kFreezeAgent,  ///< SIGSTOP, and SIGCONT later
    kFreezeHost,   ///< a virtual machine that is paused
    kCut,          ///< of the link to another host
    kCutOneWay,
    kLoss,  ///< of segments
    kSlow,  ///< threads of the agent lose the processor
    kKillRank,
    kFailRank,   ///< an error of its own that may be restarted
    kBreakRank,  ///< an error of its own that would come again
    kHangRank,
    kTellToLeave,  ///< SIGTERM to an agent: an operator takes its node out
    kPreempt,      ///< SIGTERM to an agent, and its host is gone after the notice
    kStartAgent,   ///< on a node, for the first time or again
    kJumpClock,    ///< the wall clock of a host
    kCount
  };
  Kind kind = Kind::kKillAgent;
  Nanos at = 0;
  int node = 0;
  int other = 0;    ///< the other end of a link; the local rank
  Nanos lasts = 0;  ///< 0: for ever; of a preemption: the notice
  double much = 0;  ///< loss, slowness, seconds of a jump
};

[[nodiscard]] const char* name_of(Fault::Kind kind);
[[nodiscard]] bool is_of_link(Fault::Kind kind);
[[nodiscard]] bool is_of_rank(Fault::Kind kind);
[[nodiscard]] std::string to_text(const Fault& fault);

struct Plan {
  std::uint64_t seed = 0;
  int nodes = 2;      ///< hosts
  int max_nodes = 2;  ///< of --nnodes
  int min_nodes = 2;
  std::vector<int> ranks;  ///< of each node
  int max_restarts = 0;
  int timeout_s = 30;  ///< LOCKSTEP_TIMEOUT
  int last_call_s = 5;
  bool takes_in_at_once = false;
  int replicas = 0;  ///< that the program announces; 0: none
  std::int64_t steps = 20;
  std::int64_t save_every = 5;
  Nanos step_time = 100 * kMilli;
  Nanos delay = 100 * kMicro;  ///< of a link
  std::vector<Nanos> starts;   ///< of each node's agent; kNever: only by a fault
  std::vector<Fault> faults;   ///< in the order of time

  [[nodiscard]] bool is_range() const { return min_nodes != max_nodes; }
  /// After which a silent node is lost.
  [[nodiscard]] Nanos silence() const;
  /// When the last fault is over.
  [[nodiscard]] Nanos quiet_from() const;
  /// By when the job must have ended.
  [[nodiscard]] Nanos end_by() const;
  /// The faults are such that the job must reach its last step.
  [[nodiscard]] bool must_succeed() const;
  /// The exit code of every agent where the one fault that matters is an error that would come again, and it occurs;
  /// -1: it is not known.
  [[nodiscard]] int must_end_with() const;
  /// So many rounds are allowed at most.
  [[nodiscard]] int most_rounds() const;
};

/// How large a world is: one in 200 has 9 to 64 nodes with 1 to 8 ranks each.
enum class Size : std::uint8_t { kAsDrawn, kLarge };
[[nodiscard]] Plan draw_plan(std::uint64_t seed, Size size = Size::kAsDrawn);
[[nodiscard]] std::string to_text(const Plan& plan);

}  // namespace lockstep::sim
