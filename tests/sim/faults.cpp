// SPDX-License-Identifier: Apache-2.0
// Begins and ends a world's faults according to its plan.
#include <fmt/format.h>
#include <signal.h>

#include "lockstep/base/error.h"
#include "sim/network.h"
#include "sim/world.h"

namespace lockstep::sim {

using Kind = Fault::Kind;

void World::cut(int from, int to, bool on) {
  auto& hosts = machine_.hosts();
  network().link(*hosts[static_cast<std::size_t>(from)], *hosts[static_cast<std::size_t>(to)]).is_cut = on;
}

void World::refuse_calls(const Fault& fault, bool on) {
  Host& one = *machine_.hosts()[static_cast<std::size_t>(fault.node)];
  Host& other = *machine_.hosts()[static_cast<std::size_t>(fault.other)];
  network().link(one, other).refuses_calls = network().link(other, one).refuses_calls = on;
}

void World::power_off(int node) {
  Host* host = machine_.hosts()[static_cast<std::size_t>(node)].get();
  host->is_up = host->is_frozen = false;
  for (const auto& process : machine_.processes()) {
    if (process->host == host) machine_.end_process(*process, SIGKILL);
  }
}

void World::apply(const Fault& fault) {
  Agent& agent = agents_[static_cast<std::size_t>(fault.node)];
  Host& host = *machine_.hosts()[static_cast<std::size_t>(fault.node)];
  const bool needs_agent = fault.kind == Kind::kKillAgent || fault.kind == Kind::kFreezeAgent ||
                           fault.kind == Kind::kSlow || fault.kind == Kind::kTellToLeave ||
                           fault.kind == Kind::kPreempt;
  if (host.is_frozen && (needs_agent || fault.kind == Kind::kStartAgent || fault.kind == Kind::kFreezeHost)) {
    return machine_.at(machine_.now() + kSecond, [this, &fault] { apply(fault); });
  }
  if (fault.kind == Kind::kStartAgent) --starts_to_come_;
  if (needs_agent && !agent.is_running) return;
  Rank* rank = is_of_rank(fault.kind) ? rank_on(fault.node, fault.other) : nullptr;
  if (is_of_rank(fault.kind) && rank == nullptr) return;
  ++result_.faults[static_cast<std::size_t>(fault.kind)];
  tell("FAULT", to_text(fault));
  touch(fault.node, rank != nullptr ? rank->rank : -1);
  if (fault.lasts > 0) machine_.at(machine_.now() + fault.lasts, [this, &fault] { end_of(fault); });
  if (fault.kind == Kind::kKillAgent || fault.kind == Kind::kPowerOff) expect_stop(fault.node);
  switch (fault.kind) {
    case Kind::kKillAgent:
      return machine_.end_process(*agent.process, SIGKILL);
    case Kind::kPowerOff:
      return power_off(fault.node);
    case Kind::kFreezeAgent:
      return machine_.freeze(*agent.process, true);
    case Kind::kFreezeHost:
      host.is_frozen = true;
      for (const auto& process : machine_.processes()) {
        if (process->host == &host) machine_.freeze(*process, true);
      }
      return;
    case Kind::kCut:
      cut(fault.other, fault.node, true);
      [[fallthrough]];
    case Kind::kCutOneWay:
      touch(fault.other);
      return cut(fault.node, fault.other, true);
    case Kind::kLoss:
      touch(fault.other);
      network().link(host, *machine_.hosts()[static_cast<std::size_t>(fault.other)]).loss = fault.much;
      return;
    case Kind::kRefuseCalls:
      touch(fault.other);
      return refuse_calls(fault, true);
    case Kind::kSlow:
      agent.process->slowness = fault.much;
      return;
    case Kind::kKillRank:
      return machine_.end_process(*rank->process, SIGKILL);
    case Kind::kFailRank:
      rank->fails_with = static_cast<int>(ExitCode::kIo);
      return;
    case Kind::kBreakRank:
      rank->fails_with = static_cast<int>(ExitCode::kData);
      return;
    case Kind::kHangRank:
      rank->hangs_for = static_cast<Nanos>(fault.much) * kSecond;
      return;
    case Kind::kTellToLeave:
    case Kind::kPreempt:
      if (agent.process->on_signal) return agent.process->on_signal(SIGTERM);
      return machine_.end_process(*agent.process, SIGTERM);
    case Kind::kStartAgent:
      return start_agent(fault.node);
    case Kind::kJumpClock:
      host.wall_offset += static_cast<Nanos>(fault.much) * kSecond;
      return;
    case Kind::kCount:
      return;
  }
}

void World::end_of(const Fault& fault) {
  Agent& agent = agents_[static_cast<std::size_t>(fault.node)];
  Host& host = *machine_.hosts()[static_cast<std::size_t>(fault.node)];
  tell("FAULT", to_text(fault) + ": over");
  if (fault.kind == Kind::kPreempt) power_off(fault.node);
  if (fault.kind == Kind::kFreezeAgent) machine_.freeze(*agent.process, false);
  if (fault.kind == Kind::kFreezeHost) {
    host.is_frozen = false;
    for (const auto& process : machine_.processes()) {
      if (process->host == &host) machine_.freeze(*process, false);
    }
  }
  if (fault.kind == Kind::kCut || fault.kind == Kind::kCutOneWay) cut(fault.node, fault.other, false);
  if (fault.kind == Kind::kCut) cut(fault.other, fault.node, false);
  if (fault.kind == Kind::kLoss) {
    network().link(host, *machine_.hosts()[static_cast<std::size_t>(fault.other)]).loss = 0;
  }
  if (fault.kind == Kind::kRefuseCalls) refuse_calls(fault, false);
  if (fault.kind == Kind::kSlow && agent.process != nullptr) agent.process->slowness = 0;
}

}  // namespace lockstep::sim
