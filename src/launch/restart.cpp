// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/restart.h"

#include <fmt/format.h>

namespace lockstep {

RestartDecision decide_restart(const RestartFacts& facts) {
  if (facts.was_interrupted) return {false, "it was asked to stop"};
  if (facts.max_restarts <= 0) return {false, "--max-restarts is 0"};
  for (const char* type : {"UsageError", "DataError", "InternalError"}) {
    if (facts.error_type == type) return {false, fmt::format("a {} would come again", type)};
  }
  if (facts.nodes > 1) return {false, "a group of several nodes does not restart"};
  if (facts.restarts_done >= facts.max_restarts) {
    return {false, fmt::format("all {} restarts are used up", facts.max_restarts)};
  }
  return {true, fmt::format("restart {} of {}", facts.restarts_done + 1, facts.max_restarts)};
}

}  // namespace lockstep
