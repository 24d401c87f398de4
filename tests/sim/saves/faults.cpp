// SPDX-License-Identifier: Apache-2.0
// Begins and ends the faults of a world of saves according to its plan.
#include <signal.h>

#include "sim/saves/world.h"

namespace lockstep::sim::saves {

using Kind = Fault::Kind;

namespace {

constexpr Nanos kSilence = 2 * kSecond;  // how long a host must be silent before a round without it begins

}  // namespace

void World::cut_power() {
  has_round_failed_ = true;
  for (const auto& process : machine_.processes()) machine_.end_process(*process, SIGKILL);
  for (const auto& host : machine_.hosts()) host->is_frozen = false;
  disk_.lose_power(machine_.dice());
  if (!is_contested()) (void)check_disk(disk_, true);
}

void World::kill(int rank) {
  for (Rank& one : ranks_) {
    if (one.round == round_ && one.rank == rank % one.world_size && !one.has_ended) {
      return machine_.end_process(*one.process, SIGKILL);
    }
  }
}

void World::freeze(Host& host, Nanos lasts) {
  if (host.is_frozen) return;
  host.is_frozen = true;
  for (const auto& process : machine_.processes()) {
    if (process->host == &host) machine_.freeze(*process, true);
  }
  const int round = round_;
  if (lasts > kSilence) {
    machine_.at(machine_.now() + kSilence, [this, round, &host] {
      if (plan_.do_locks_expire) locks().expire(host.number);
      if (round == round_ && !is_job_done_) fail_round(100 * kMilli);
    });
  }
  machine_.at(machine_.now() + lasts, [this, &host] { thaw(host); });
}

void World::thaw(Host& host) {
  if (!host.is_frozen || is_job_done_) return;
  tell("FAULT", host.name + " goes on");
  host.is_frozen = false;
  for (const auto& process : machine_.processes()) {
    if (process->host == &host) machine_.freeze(*process, false);
  }
  // The agent of the host notices the new round a little later.
  machine_.at(machine_.now() + machine_.dice().between(0, 2 * kSecond), [this] { stop_ranks(round_ - 1); });
}

/// Applies the fault that is due at a call during a save.
void World::strike() {
  if (is_job_done_) return;
  tell("FAULT", "now");
  if (in_save_.kind == Kind::kKillInSave) return kill(in_save_.target);
  if (in_save_.kind == Kind::kFreezeInSave) {
    until_save_ = caller_;
    return freeze(*caller_, in_save_.lasts);
  }
  cut_power();
  start_round_in(kSecond);
}

void World::trouble_disk(const Fault& fault, bool begins) {
  if (is_job_done_) return;
  DiskState& state = disk_.state;
  const double chance = begins ? fault.much : 0;
  if (fault.kind == Kind::kFailWrites) state.fails_write = chance;
  if (fault.kind == Kind::kFailSyncs) state.fails_sync = chance;
  if (fault.kind == Kind::kFailReads) state.fails_read = chance;
  if (fault.kind == Kind::kFailNames) state.fails_name = chance;
  if (fault.kind == Kind::kFull) state.room = begins ? disk_.used() + static_cast<std::size_t>(fault.much) : SIZE_MAX;
  if (fault.kind == Kind::kSlow) state.latency = plan_.latency * (begins ? static_cast<Nanos>(fault.much) : 1);
  if (begins) machine_.at(machine_.now() + fault.lasts, [this, &fault] { trouble_disk(fault, false); });
}

void World::apply(const Fault& fault) {
  if (is_job_done_) return;
  ++result_.faults[static_cast<std::size_t>(fault.kind)];
  tell("FAULT", to_text(fault));
  switch (fault.kind) {
    case Kind::kPowerCut:
      cut_power();
      return start_round_in(kSecond);
    case Kind::kPowerOff: {
      Host& host = *machine_.hosts()[static_cast<std::size_t>(fault.target % plan_.hosts)];
      for (const auto& process : machine_.processes()) {
        if (process->host == &host) machine_.end_process(*process, SIGKILL);
      }
      return disk_.lose_host(host.number, machine_.dice());
    }
    case Kind::kKillRank:
      return kill(fault.target);
    case Kind::kKillInSave:
    case Kind::kCutInSave:
    case Kind::kFreezeInSave:
      in_save_ = fault;
      calls_until_ = static_cast<int>(fault.much);
      return;
    case Kind::kFreeze:
      return freeze(*machine_.hosts()[static_cast<std::size_t>(fault.target % plan_.hosts)], fault.lasts);
    case Kind::kGiveUp:
      return fail_round(machine_.dice().between(0, 2 * kSecond));
    default:
      return trouble_disk(fault, true);
  }
}

}  // namespace lockstep::sim::saves
