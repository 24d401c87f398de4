// SPDX-License-Identifier: Apache-2.0
// The plan generated from a seed for a world of saves: the ranks, the disk, and the faults with their times. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/kernel.h"

namespace lockstep::sim::saves {

inline constexpr std::int64_t kElements = 96;  ///< of the saved tensor

struct Fault {
  enum class Kind : std::uint8_t {
    kPowerCut,      ///< all hosts and the disk lose power
    kPowerOff,      ///< a host loses power, and some of its unsynced changes
    kKillRank,      ///< SIGKILL
    kKillInSave,    ///< SIGKILL at one of the next disk calls
    kCutInSave,     ///< a power cut at one of the next disk calls
    kFreezeInSave,  ///< a host is paused at one of the next calls, until the ranks of another round are saving
    kFreeze,        ///< a host is paused, and its ranks resume during another round
    kGiveUp,        ///< the group has failed, and its ranks abandon their saves
    kFull,          ///< the disk has room for a limited number of bytes
    kFailWrites,
    kFailSyncs,
    kFailReads,
    kFailNames,
    kSlow,  ///< the disk is slow
    kCount
  };
  Kind kind = Kind::kPowerCut;
  Nanos at = 0;
  int target = 0;   ///< a host or a rank
  Nanos lasts = 0;  ///< 0: instantaneous
  double much = 0;  ///< a probability, a number of calls or bytes, or a slowdown factor
};

[[nodiscard]] const char* name_of(Fault::Kind kind);
[[nodiscard]] std::string to_text(const Fault& fault);

struct Plan {
  std::uint64_t seed = 0;
  int hosts = 1;
  int ranks = 1;  ///< maximum ranks in a round
  bool is_sharded = false;
  bool in_background = false;
  int keep_last = 3;
  int keep_every = 0;
  int name_every = 0;  ///< every N-th save is named "best"; 0: none
  std::int64_t steps = 10;
  std::int64_t save_every = 1;
  Nanos step_time = 10 * kMilli;
  Nanos latency = 100 * kMicro;
  bool are_containers = false;   ///< on each host, pids start from the same number in each round
  bool has_run_folder = true;    ///< false: the program saves without RunFolder, and thus without its lock
  bool has_locks = true;         ///< the file system supports locks
  bool do_locks_expire = false;  ///< a host paused for long loses its locks, as with NFS
  bool is_exact = false;         ///< a step saved again has the same bytes
  std::vector<Fault> faults;     ///< sorted by time

  [[nodiscard]] Nanos quiet_from() const;
  [[nodiscard]] Nanos end_by() const { return quiet_from() + 600 * kSecond; }
};

[[nodiscard]] Plan draw_plan(std::uint64_t seed);
[[nodiscard]] std::string to_text(const Plan& plan);

}  // namespace lockstep::sim::saves
