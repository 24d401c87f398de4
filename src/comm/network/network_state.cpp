// SPDX-License-Identifier: Apache-2.0
#include "comm/network/network_state.h"

#include <vector>

#include "comm/network/roll_call.h"

namespace lockstep::comm {

void NetworkState::abort() noexcept {
  if (!aborted.exchange(true)) watch.raise(world.rank);
}

void NetworkState::report_death(int suspect) noexcept {
  watch.raise(suspect);
  (void)call_roll(world, suspect);
}

bool NetworkState::has_failure() const noexcept {
  World now = world;
  now.patience = std::chrono::milliseconds(0);
  return first_failure(now).has_value();
}

void throw_failure(NetworkState& state, const FailedExchange& failed) {
  const Collective& collective = failed.collective;
  const World& world = state.world;
  const int suspect = state.watch.alarm().value_or(failed.suspect);
  state.watch.raise(suspect);
  const RollCall answers =
      call_roll(world, suspect, failed.is_over ? suspect_limit_after(collective.timeout) : kSuspectLimit);
  if (!failed.is_over) {
    const int blamed = blamed_rank(answers, suspect, world);
    if (answers.count(blamed) == 0) throw_death(world, blamed, collective);
    throw_disconnection(world, blamed == world.rank ? failed.suspect : blamed, failed.why, collective);
  }
  const auto late = [&](int rank) { return LateRank{rank, rank == failed.suspect ? failed.why : ""}; };
  std::vector<LateRank> missing;
  if (!answers.empty()) {
    for (const int rank : absent_ranks(answers, world)) missing.push_back(late(rank));
  }
  if (missing.empty()) missing.push_back(late(suspect));
  throw timeout_error(world, collective, missing);
}

}  // namespace lockstep::comm
