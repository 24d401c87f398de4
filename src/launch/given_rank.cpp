// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/given_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "launch/worker_env.h"
#include "lockstep/base/env.h"
#include "lockstep/base/rank_variables.h"
#include "lockstep/launch/spawn.h"

namespace lockstep {
namespace {

// The launcher's own variables for a rank, besides torchrun's numbers.
constexpr std::array<std::string_view, 11> kLauncherNames = {"GROUP_WORLD_SIZE",
                                                             "ROLE_RANK",
                                                             "ROLE_WORLD_SIZE",
                                                             "MASTER_ADDR",
                                                             "MASTER_PORT",
                                                             "LOCKSTEP_STORE",
                                                             "LOCKSTEP_STORE_PREFIX",
                                                             "LOCKSTEP_STORE_TOKEN",
                                                             "LOCKSTEP_ERROR_FILE",
                                                             "LOCKSTEP_MAX_WORLD_SIZE",
                                                             "LOCKSTEP_MIN_WORLD_SIZE"};

// Old scripts set LOCAL_RANK to -1 if there is none.
bool is_set(const char* name) {
  const auto value = env::get(name);
  return value && !(name == std::string_view(kTorchrunVariables.local_rank) && *value == "-1");
}

const char* slurm_world() { return is_set("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : kSlurmVariables.world; }

bool is_slurm_rank() {
  const auto step = env::get("SLURM_STEP_ID");
  if (!step || !is_set(kSlurmVariables.rank)) return false;
  if (std::ranges::count(kSlurmStepsWithoutRanks, *step) > 0) return false;
  return env::get_int(slurm_world()).value_or(1) > 1;
}

bool is_of_torchrun(std::string_view name) {
  const RankVariables& names = kTorchrunVariables;
  for (const char* each : {names.rank, names.world, names.local_rank, names.local_world, names.node}) {
    if (name == each) return true;
  }
  return name.starts_with("TORCHELASTIC_");
}

bool makes_a_rank(std::string_view name) {
  return is_of_torchrun(name) || launch::is_of_scheduler(name) ||
         std::find(kLauncherNames.begin(), kLauncherNames.end(), name) != kLauncherNames.end();
}

}  // namespace

bool is_rank() {
  const RankVariables& torchrun = kTorchrunVariables;
  const std::array names = {torchrun.rank,    torchrun.world,         torchrun.local_rank,
                            "LOCKSTEP_STORE", kOpenMpiVariables.rank, kPmiVariables.rank};
  return std::any_of(names.begin(), names.end(), is_set) || is_slurm_rank();
}

std::optional<GivenRank> given_rank() {
  for (const RankVariables& names : kRankVariables) {
    const bool is_slurm = names.rank == kSlurmVariables.rank;
    if (is_slurm && !is_slurm_rank()) continue;
    const char* world = is_slurm ? slurm_world() : names.world;
    const auto rank = env::get_int(names.rank);
    const auto world_size = env::get_int(world);
    if (!rank && !world_size) continue;
    if (!rank || !world_size) return std::nullopt;
    return GivenRank{.rank = static_cast<int>(*rank),
                     .world_size = static_cast<int>(*world_size),
                     .variables = fmt::format("{} and {}", names.rank, world),
                     .has_launcher = is_set("LOCKSTEP_STORE") || is_set("TORCHELASTIC_RUN_ID")};
  }
  return std::nullopt;
}

void forget_given_rank() {
  for (const std::string& entry : launch::own_environment()) {
    const std::string name = entry.substr(0, entry.find('=', 1));
    const bool is_ring = name == "LOCKSTEP_FLIGHT" && env::get("LOCKSTEP_FLIGHT") != "off";
    if (makes_a_rank(name) || is_ring) ::unsetenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
  }
}

}  // namespace lockstep
