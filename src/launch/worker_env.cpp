// SPDX-License-Identifier: Apache-2.0
#include "launch/worker_env.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "lockstep/base/gpu_devices.h"

namespace lockstep::launch {
namespace {

// With these variables, every worker would seem to be the same task of srun or mpirun.
constexpr std::array<std::string_view, 8> kSchedulerPrefixes = {
    "PMI_", "PMI2_", "PMIX_", "OMPI_COMM_WORLD_", "OMPI_MCA_", "MV2_COMM_WORLD", "MPI_LOCAL", "PALS_"};
constexpr std::array<std::string_view, 12> kSchedulerNames = {
    "SLURM_PROCID",          "SLURM_LOCALID", "SLURM_NODEID",   "SLURM_NTASKS",         "SLURM_NPROCS",
    "SLURM_NTASKS_PER_NODE", "SLURM_GTIDS",   "SLURM_TASK_PID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_TASKS_PER_NODE",  "SLURM_STEP_ID"};

using Variables = std::map<std::string, std::string>;

void set_torchrun(Variables& variables, const EnvironmentSpec& spec) {
  const Place& place = spec.place;
  const std::string rank = std::to_string(place.first_rank + place.local_rank);
  variables["RANK"] = rank;
  variables["LOCAL_RANK"] = std::to_string(place.local_rank);
  variables["WORLD_SIZE"] = std::to_string(place.world_size);
  variables["LOCAL_WORLD_SIZE"] = std::to_string(place.local_world_size);
  variables["GROUP_RANK"] = std::to_string(place.node_rank);
  variables["GROUP_WORLD_SIZE"] = std::to_string(place.nodes);
  variables["ROLE_RANK"] = rank;
  variables["ROLE_WORLD_SIZE"] = std::to_string(place.world_size);
  variables["ROLE_NAME"] = spec.role;
  variables["MASTER_ADDR"] = spec.master_addr;
  variables["MASTER_PORT"] = std::to_string(spec.master_port);
  variables["TORCHELASTIC_RESTART_COUNT"] = std::to_string(spec.restart_count);
  variables["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(spec.max_restarts);
  variables["TORCHELASTIC_RUN_ID"] = spec.run_id;
  // Our store's protocol differs from TCPStore's: other programs create their own store at MASTER_PORT.
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  variables["TORCHELASTIC_ERROR_FILE"] = spec.error_file;
  variables.emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  if (!spec.blas_core.empty()) variables.emplace("OPENBLAS_CORETYPE", spec.blas_core);
  if (place.local_world_size > 1) variables.emplace("OMP_NUM_THREADS", "1");
}

/// Makes only the rank's own GPU visible to it, if the user wants that or if CUDA would show every rank the same slice.
void show_one_gpu(Variables& variables, const EnvironmentSpec& spec) {
  const auto visible = variables.find("CUDA_VISIBLE_DEVICES");
  const bool is_listed = visible != variables.end();
  if (!spec.virtual_local_rank && !(is_listed && names_slices(visible->second))) return;
  const int local_rank = spec.place.local_rank;
  variables["CUDA_VISIBLE_DEVICES"] =
      is_listed ? visible_gpu_of(visible->second, local_rank) : std::to_string(local_rank);
  if (spec.virtual_local_rank) variables["LOCAL_RANK"] = "0";
}

}  // namespace

bool is_of_scheduler(std::string_view name) {
  return std::any_of(kSchedulerPrefixes.begin(), kSchedulerPrefixes.end(),
                     [&](auto prefix) { return name.substr(0, prefix.size()) == prefix; }) ||
         std::find(kSchedulerNames.begin(), kSchedulerNames.end(), name) != kSchedulerNames.end();
}

std::vector<std::string> worker_environment(const std::vector<std::string>& inherited, const EnvironmentSpec& spec) {
  Variables variables;
  for (const auto& entry : inherited) {
    const auto equals = entry.find('=', 1);
    if (equals == std::string::npos) continue;
    std::string name = entry.substr(0, equals);
    if (!is_of_scheduler(name)) variables[std::move(name)] = entry.substr(equals + 1);
  }
  set_torchrun(variables, spec);
  variables["LOCKSTEP_STORE"] = spec.store.host + ":" + std::to_string(spec.store.port);
  variables["LOCKSTEP_STORE_PREFIX"] = spec.store_prefix;
  variables["LOCKSTEP_STORE_TOKEN"] = spec.store.token;
  variables["LOCKSTEP_ERROR_FILE"] = spec.error_file;
  if (variables["LOCKSTEP_FLIGHT"] != "off") variables["LOCKSTEP_FLIGHT"] = spec.flight_ring;
  if (spec.max_world_size > 0) variables["LOCKSTEP_MAX_WORLD_SIZE"] = std::to_string(spec.max_world_size);
  variables.erase("LOCKSTEP_MIN_WORLD_SIZE");  // belongs to an enclosing job
  if (spec.min_world_size > 0) variables["LOCKSTEP_MIN_WORLD_SIZE"] = std::to_string(spec.min_world_size);
  show_one_gpu(variables, spec);
  for (const auto& [name, value] : spec.extra) variables[name] = value;
  std::vector<std::string> result;
  for (const auto& [name, value] : variables) result.push_back(name + "=" + value);
  return result;
}

std::vector<std::string> own_environment() {
  std::vector<std::string> entries;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return entries;
}

}  // namespace lockstep::launch
