// SPDX-License-Identifier: Apache-2.0
// What a seed makes of a world of saves: the ranks, the disk, and what goes wrong when. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/kernel.h"

namespace lockstep::sim::saves {

struct Fault {
  enum class Kind : std::uint8_t {
    kPowerCut,      ///< of all hosts and the disk
    kPowerOff,      ///< of a host; what it has not fsynced is lost
    kKillRank,      ///< SIGKILL
    kKillInSave,    ///< the same, at one of the next calls on the disk
    kCutInSave,     ///< a power cut at one of the next calls on the disk
    kFreezeInSave,  ///< a host is paused at one of them, until the ranks of another round save
    kFreeze,        ///< a host is paused; its ranks go on in another round
    kGiveUp,        ///< the group has failed: ranks give up their saves
    kFull,          ///< the disk takes only so many bytes more
    kFailWrites,
    kFailSyncs,
    kFailReads,
    kFailNames,
    kSlow,  ///< the disk
    kCount
  };
  Kind kind = Kind::kPowerCut;
  Nanos at = 0;
  int target = 0;   ///< a host, or a rank
  Nanos lasts = 0;  ///< 0: it does not
  double much = 0;  ///< a chance, calls, bytes, or times as slow
};

[[nodiscard]] const char* name_of(Fault::Kind kind);
[[nodiscard]] std::string to_text(const Fault& fault);

struct Plan {
  std::uint64_t seed = 0;
  int hosts = 1;
  int ranks = 1;  ///< of a round, at most
  bool is_sharded = false;
  bool in_background = false;
  int keep_last = 3;
  int keep_every = 0;
  int name_every = 0;  ///< each such save is "best"; 0: none
  std::int64_t steps = 10;
  std::int64_t save_every = 1;
  Nanos step_time = 10 * kMilli;
  Nanos latency = 100 * kMicro;
  bool are_containers = false;   ///< each host counts its pids from the same number in each round
  bool has_locks = true;         ///< of the file system
  bool do_locks_expire = false;  ///< a host that is paused for long loses its locks, as with NFS
  bool is_exact = false;         ///< a step saved again has the same bytes
  std::vector<Fault> faults;     ///< in the order of time

  [[nodiscard]] Nanos quiet_from() const;
  [[nodiscard]] Nanos end_by() const { return quiet_from() + 600 * kSecond; }
};

[[nodiscard]] Plan draw_plan(std::uint64_t seed);
[[nodiscard]] std::string to_text(const Plan& plan);

}  // namespace lockstep::sim::saves
