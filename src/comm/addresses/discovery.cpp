// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/discovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/addresses/slurm.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/rank_variables.h"
#include "lockstep/store/host_brackets.h"

namespace lockstep {
namespace {

constexpr const RankVariables& kTorchrun = kTorchrunVariables;
constexpr const RankVariables& kSlurm = kSlurmVariables;
constexpr const RankVariables& kOpenMpi = kOpenMpiVariables;
constexpr const RankVariables& kPmi = kPmiVariables;

constexpr std::pair<const char*, const char*> kPalsNames[] = {{kPmi.local_rank, "PMI_LOCAL_RANK"},
                                                              {kPmi.local_world, "PMI_LOCAL_SIZE"}};

constexpr const char* kOthers[] = {"MASTER_ADDR",           "MASTER_PORT",          "TORCHELASTIC_USE_AGENT_STORE",
                                   "LOCKSTEP_STORE",        "LOCKSTEP_STORE_TOKEN", "TORCHELASTIC_RESTART_COUNT",
                                   "LOCKSTEP_TOKEN",        "SLURM_STEP_ID",        "SLURM_STEP_NUM_TASKS",
                                   "SLURM_STEP_NODELIST",   "SLURM_JOB_ID",         "SLURM_PTY_PORT",
                                   "LOCKSTEP_STORE_PREFIX", "PMI_LOCAL_RANK",       "PMI_LOCAL_SIZE"};

/// Returns the variable's value; none if it is unset or empty, or the LOCAL_RANK of -1 with which old scripts say that
/// there is none.
std::optional<std::string> find(const Environment& environment, const char* name) {
  if (name == nullptr) return std::nullopt;
  const auto found = environment.find(name);
  if (found == environment.end() || found->second.empty()) return std::nullopt;
  if (found->first == kTorchrun.local_rank && found->second == "-1") return std::nullopt;
  return found->second;
}

constexpr std::int64_t kMostRanks = 1'000'000;
constexpr std::int64_t kMostJobs = 4'294'967'295;  // Slurm's numbers of jobs and steps have 32 bits

std::optional<std::int64_t> find_int(const Environment& environment, const char* name, std::int64_t most = kMostRanks) {
  const auto text = find(environment, name);
  if (!text) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), value);
  const bool is_whole = problem == std::errc() && end == text->data() + text->size();
  if (!is_whole || value < 0 || value > most) {
    throw UsageError(
        fmt::format("the variable {} is '{}', which is not a whole number from 0 to {}", name, *text, most));
  }
  return value;
}

std::int64_t need_int(const Environment& environment, const char* name, const char* present) {
  const auto value = find_int(environment, name);
  if (value) return *value;
  throw UsageError(fmt::format("the environment is incomplete: {} is set, {} is missing", present, name),
                   "start the program with `lockstep run`, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT");
}

RankInfo read_info(const Environment& environment, const RankVariables& names) {
  RankInfo info;
  info.source = names.source;
  const char* present = find(environment, names.rank) ? names.rank : names.world;
  const std::int64_t world = need_int(environment, names.world, present);
  const std::int64_t rank = need_int(environment, names.rank, present);
  if (rank >= world) {
    throw UsageError(fmt::format("{} is {}, outside of the world of {} ({})", names.rank, rank, world, names.world),
                     "ranks go from 0 to the world size - 1");
  }
  info.rank = static_cast<int>(rank);
  info.world_size = static_cast<int>(world);
  info.local_world_size = static_cast<int>(find_int(environment, names.local_world).value_or(world));
  if (info.local_world_size == 0) {
    throw UsageError(fmt::format("{} is 0, but this rank runs on this host", names.local_world),
                     "set it to the number of ranks on this host");
  }
  info.local_rank = static_cast<int>(find_int(environment, names.local_rank).value_or(rank % info.local_world_size));
  info.node_rank = static_cast<int>(find_int(environment, names.node).value_or(rank / info.local_world_size));
  info.restart_count = static_cast<int>(find_int(environment, "TORCHELASTIC_RESTART_COUNT").value_or(0));
  if (info.local_rank >= info.local_world_size) {
    throw UsageError(fmt::format("{} is {}, outside of this host's {} ({})", names.local_rank, info.local_rank,
                                 info.local_world_size, names.local_world));
  }
  return info;
}

std::uint16_t to_port(const std::string& text, const char* name) {
  unsigned value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || value == 0 || value > 65535) {
    throw UsageError(fmt::format("the port in {} is '{}', which is not a number from 1 to 65535", name, text));
  }
  return static_cast<std::uint16_t>(value);
}

void set_agent_store(WorldPlan& plan, const std::string& address, const Environment& environment) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    throw UsageError(fmt::format("LOCKSTEP_STORE is '{}', which is not host:port", address));
  }
  plan.store = StoreKind::kAgent;
  plan.host = without_brackets(address.substr(0, colon));
  plan.port = to_port(address.substr(colon + 1), "LOCKSTEP_STORE");
  plan.token = find(environment, "LOCKSTEP_STORE_TOKEN").value_or("");
  plan.prefix = find(environment, "LOCKSTEP_STORE_PREFIX").value_or("");
}

std::string need_master(const Environment& environment, const char* name, const RankInfo& info) {
  if (const auto value = find(environment, name)) return *value;
  throw UsageError(fmt::format("the environment is incomplete: the world size is {} ({}), but {} is missing",
                               info.world_size, info.source, name),
                   "set MASTER_ADDR and MASTER_PORT to an address of rank 0's host and a free port there");
}

void set_master(WorldPlan& plan, const Environment& environment) {
  const bool slurm = plan.info.source == kSlurm.source;
  if (slurm && !find(environment, "MASTER_ADDR") && find(environment, "SLURM_STEP_NODELIST")) {
    constexpr const char* kHosts = "SLURM_STEP_NODELIST";
    plan.host = comm::expand_node_list(*find(environment, kHosts), kHosts, 1).front();
  } else {
    plan.host = without_brackets(need_master(environment, "MASTER_ADDR", plan.info));
  }
  if (slurm && !find(environment, "MASTER_PORT") && find(environment, "SLURM_JOB_ID")) {
    const auto job = *find_int(environment, "SLURM_JOB_ID", kMostJobs);
    const auto step = find_int(environment, "SLURM_STEP_ID", kMostJobs).value_or(0);
    // Below the range of ephemeral ports. Neighbouring jobs of one machine differ, whatever their steps.
    plan.port = static_cast<std::uint16_t>(20000 + (job + 6181 * step) % 10000);
    plan.prefix = fmt::format("slurm-step-{}.{}/", job, step);  // other steps may have the same port
  } else {
    plan.port = to_port(need_master(environment, "MASTER_PORT", plan.info), "MASTER_PORT");
  }
}

/// Returns true if the launcher has declared that all ranks are on one host: they need no address for other hosts.
bool is_one_host(const RankInfo& info, const Environment& environment) {
  for (const RankVariables& names : kRankVariables) {
    if (info.source == names.source)
      return find(environment, names.local_world) && info.local_world_size == info.world_size;
  }
  return false;
}

void choose_store(WorldPlan& plan, const Environment& environment) {
  if (const auto address = find(environment, "LOCKSTEP_STORE")) return set_agent_store(plan, *address, environment);
  if (plan.info.world_size == 1) return;
  set_master(plan, environment);
  if (find(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True") {
    plan.store = StoreKind::kTorchAgent;
    plan.prefix = fmt::format("/worker/attempt_{}", plan.info.restart_count);
    plan.info.source = "torchrun's variables and store";
    plan.token = find(environment, "LOCKSTEP_TOKEN").value_or("");  // the store needs no token, but connections do
  } else {
    plan.store = StoreKind::kRankZero;
    if (is_one_host(plan.info, environment)) plan.host = "127.0.0.1";
    plan.token = find(environment, "LOCKSTEP_TOKEN").value_or("");
  }
}

/// Returns true for a step of more than one task. The batch and interactive steps, which have special numbers, run a
/// script, not ranks.
bool is_slurm_step(const Environment& environment) {
  const auto step = find(environment, "SLURM_STEP_ID");
  if (!step || std::ranges::count(kSlurmStepsWithoutRanks, *step) > 0) return false;
  if (!find(environment, kSlurm.rank)) return false;
  auto tasks = find_int(environment, "SLURM_STEP_NUM_TASKS");
  if (!tasks) tasks = find_int(environment, kSlurm.world);
  return tasks.value_or(1) > 1;
}

/// Returns true if the PMI variables name another rank or world than Slurm's. Hydra's mpirun starts its daemons with
/// srun, so its ranks inherit the daemon's Slurm variables. Under srun --mpi=pmi2 both agree.
bool does_pmi_contradict_slurm(const Environment& environment) {
  const auto rank = find(environment, kPmi.rank);
  const auto world = find(environment, kPmi.world);
  if (!rank || !world) return false;
  auto tasks = find(environment, "SLURM_STEP_NUM_TASKS");
  if (!tasks) tasks = find(environment, kSlurm.world);
  return rank != find(environment, kSlurm.rank) || world != tasks;
}

/// PALS, the launcher of HPE Cray, has its own names for the local rank.
RankInfo read_pmi(const Environment& environment) {
  Environment pmi = environment;
  for (const auto& [name, name_of_pals] : kPalsNames) {
    if (const auto value = find(environment, name_of_pals)) pmi.emplace(name, *value);
  }
  return read_info(pmi, kPmi);
}

RankInfo read_slurm(const Environment& environment) {
  Environment step = environment;
  if (const auto tasks = find(environment, "SLURM_STEP_NUM_TASKS")) step[kSlurm.world] = *tasks;
  if (const auto tasks = find(environment, kSlurm.local_world)) {
    step[kSlurm.local_world] = comm::tasks_of_node(*tasks, find_int(environment, kSlurm.node).value_or(0));
  }
  return read_info(step, kSlurm);
}

}  // namespace

WorldPlan discover_world(const Environment& environment) {
  const auto has = [&](const char* name) { return find(environment, name).has_value(); };
  WorldPlan plan;
  if (has("RANK") || has("WORLD_SIZE") || has("LOCKSTEP_STORE")) {
    if (!has("RANK") && !has("WORLD_SIZE")) need_int(environment, "RANK", "LOCKSTEP_STORE");
    plan.info = read_info(environment, kTorchrun);
  } else if (has(kOpenMpi.rank) || has(kOpenMpi.world)) {
    plan.info = read_info(environment, kOpenMpi);  // srun, which may have started mpirun's daemons, never sets these
  } else if (is_slurm_step(environment) && !does_pmi_contradict_slurm(environment)) {
    plan.info = read_slurm(environment);
  } else if (has(kPmi.rank) || has(kPmi.world)) {
    plan.info = read_pmi(environment);
  } else if (has("LOCAL_RANK")) {
    need_int(environment, "RANK", "LOCAL_RANK");
  } else {
    return plan;
  }
  choose_store(plan, environment);
  return plan;
}

Environment current_environment() {
  Environment environment;
  const auto add = [&](const char* name) {
    if (auto value = env::get(name)) environment[name] = *value;
  };
  for (const RankVariables& names : kRankVariables) {
    for (const char* name : {names.rank, names.world, names.local_rank, names.local_world, names.node}) {
      if (name != nullptr) add(name);
    }
  }
  for (const char* name : kOthers) add(name);
  return environment;
}

}  // namespace lockstep
