// SPDX-License-Identifier: Apache-2.0
#include "support/double/ranks.h"

#include "support/double/ledger.h"
#include "support/double/recording.h"

namespace lockstep::testing {

RanksOptions ranks_on_gpus(int world, std::map<std::string, std::string> env) {
  env.try_emplace("LOCKSTEP_DEVICE", "cuda");
  env.try_emplace("LOCKSTEP_DOUBLE_GPUS", std::to_string(world));
  env.try_emplace("LOCKSTEP_NCCL", LOCKSTEP_NCCL_DOUBLE);
  return {.world = world, .env = std::move(env)};
}

int found_replays() { return make_believe::Recording::replays(); }

std::vector<std::string> found_races() { return make_believe::Ledger::instance().take_races(); }

}  // namespace lockstep::testing
