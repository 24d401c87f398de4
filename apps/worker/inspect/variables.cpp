// SPDX-License-Identifier: Apache-2.0
#include "worker/inspect/variables.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

namespace lockstep::worker {
namespace {

struct Known {
  std::string_view name;
  std::string_view meaning;
};

// Every variable that our sources read, which a test compares with them, and what people set for the libraries below;
// whole families by their prefix come after it. Sorted.
constexpr std::array kKnown = {
    Known{"COLUMNS", "width of what is printed where there is no terminal to ask"},
    Known{"CUDA_LAUNCH_BLOCKING", "1: the host waits for every kernel; for finding errors, slow"},
    Known{"CUDA_VISIBLE_DEVICES", "the GPUs that this process sees, and their order"},
    Known{"GLOO_SOCKET_IFNAME", "the one network interface of gloo"},
    Known{"GOTO_NUM_THREADS", "serves where OPENBLAS_NUM_THREADS is unset"},
    Known{"GROUP_RANK", "this host's number (torchrun)"},
    Known{"HOME", "holds .cache/lockstep, the files that were fetched"},
    Known{"LOCAL_RANK", "this rank's number on its host: its GPU"},
    Known{"LOCAL_WORLD_SIZE", "ranks on this host"},
    Known{"LOCKSTEP_BACKEND", "as --backend"},
    Known{"LOCKSTEP_DEVICE", "as --device"},
    Known{"LOCKSTEP_ERROR_FILE", "where a rank writes why it failed; set by lockstep run"},
    Known{"LOCKSTEP_FETCH_MIN_SPEED", "bytes per second below which a download is given up (default 1000; 0: never)"},
    Known{"LOCKSTEP_HOST_ID", "ranks with the same one are taken to share memory"},
    Known{"LOCKSTEP_LOG", "level of the log: error, warn, note (default), info, debug"},
    Known{"LOCKSTEP_QUIET", "1: no banner, progress, table; as --quiet, which sets LOCKSTEP_LOG to warn too"},
    Known{"LOCKSTEP_SHARE_GPUS", "1: several ranks may use one GPU, for tests"},
    Known{"LOCKSTEP_STORE", "host:port of the launcher's store; set by lockstep run"},
    Known{"LOCKSTEP_STORE_TOKEN", "opens that store; set by lockstep run"},
    Known{"LOCKSTEP_TIMEOUT", "seconds that a collective may take (default 300)"},
    Known{"LOCKSTEP_TOKEN", "opens the store where several hosts meet: the same on each"},
    Known{"MALLOC_MMAP_MAX_", "set: freed memory is given back as the C library does, not kept for the next step"},
    Known{"MALLOC_TOP_PAD_", "the same"},
    Known{"MALLOC_TRIM_THRESHOLD_", "the same"},
    Known{"MASTER_ADDR", "host of rank 0"},
    Known{"MASTER_PORT", "port on it at which ranks meet"},
    Known{"MPI_LOCALNRANKS", "MPICH's word for LOCAL_WORLD_SIZE"},
    Known{"MPI_LOCALRANKID", "MPICH's word for LOCAL_RANK"},
    Known{"NCCL_BUFFSIZE", "bytes of NCCL's buffer for each pair of GPUs"},
    Known{"NCCL_DEBUG", "INFO or WARN: how much NCCL prints"},
    Known{"NCCL_IB_DISABLE", "1: no InfiniBand, plain sockets"},
    Known{"NCCL_IB_HCA", "the InfiniBand cards to use"},
    Known{"NCCL_NET_GDR_LEVEL", "0: network cards do not write into GPU memory"},
    Known{"NCCL_P2P_DISABLE", "1: GPUs do not reach each other's memory, they go through the host's"},
    Known{"NCCL_SHM_DISABLE", "1: no /dev/shm between GPUs of a host"},
    Known{"NCCL_SOCKET_IFNAME", "the network interfaces of NCCL; ^ before one excludes it"},
    Known{"NCCL_TIMEOUT", "serves where LOCKSTEP_TIMEOUT is unset"},
    Known{"NO_COLOR", "set: nothing is coloured"},
    Known{"OMPI_COMM_WORLD_LOCAL_RANK", "Open MPI's word for LOCAL_RANK"},
    Known{"OMPI_COMM_WORLD_LOCAL_SIZE", "Open MPI's word for LOCAL_WORLD_SIZE"},
    Known{"OMPI_COMM_WORLD_NODE_RANK", "Open MPI's number of the host"},
    Known{"OMPI_COMM_WORLD_RANK", "Open MPI's word for RANK"},
    Known{"OMPI_COMM_WORLD_SIZE", "Open MPI's word for WORLD_SIZE"},
    Known{"OMP_NUM_THREADS", "threads of libtorch where the recipe's `threads` does not say"},
    Known{"OPENBLAS_CORETYPE", "the processor whose kernels OpenBLAS takes; unset: the best that this one can run"},
    Known{"OPENBLAS_NUM_THREADS", "threads of OpenBLAS; before GOTO_NUM_THREADS and OMP_NUM_THREADS"},
    Known{"PATH", "where lockstep run looks for a program"},
    Known{"PMI_NODE", "MPICH's number of the host"},
    Known{"PMI_RANK", "MPICH's word for RANK"},
    Known{"PMI_SIZE", "MPICH's word for WORLD_SIZE"},
    Known{"RANK", "this rank's number"},
    Known{"SLURM_ARRAY_JOB_ID", "the array whose task is put back into the queue"},
    Known{"SLURM_ARRAY_TASK_ID", "and which task of it"},
    Known{"SLURM_JOB_ID", "the job that is put back into the queue; ranks of srun derive their port from it"},
    Known{"SLURM_LOCALID", "Slurm's word for LOCAL_RANK"},
    Known{"SLURM_NODEID", "Slurm's number of the host"},
    Known{"SLURM_NTASKS", "Slurm's word for WORLD_SIZE"},
    Known{"SLURM_PROCID", "Slurm's word for RANK"},
    Known{"SLURM_STEP_ID", "the step of srun: ranks are taken from Slurm only inside one"},
    Known{"SLURM_STEP_NODELIST", "its hosts: ranks meet on the first"},
    Known{"SLURM_STEP_NUM_TASKS", "its ranks: with one there is no job to join"},
    Known{"SLURM_STEP_TASKS_PER_NODE", "Slurm's word for LOCAL_WORLD_SIZE"},
    Known{"TERM", "dumb: nothing is coloured"},
    Known{"TMPDIR", "where the logs of lockstep run lie without --log-dir"},
    Known{"TORCHELASTIC_ERROR_FILE", "serves where LOCKSTEP_ERROR_FILE is unset"},
    Known{"TORCHELASTIC_RESTART_COUNT", "above 0: the group was started again, and goes on from its checkpoint"},
    Known{"TORCHELASTIC_USE_AGENT_STORE", "True: torchrun's agent keeps the store"},
    Known{"WORLD_SIZE", "all ranks"},
    Known{"XDG_CACHE_HOME", "holds lockstep, the files that were fetched, before HOME"},
};

constexpr std::array<std::string_view, 9> kFamilies = {"CUDA_", "GLOO_",  "LOCKSTEP_", "MKL_",     "NCCL_",
                                                       "OMP_",  "SLURM_", "TORCH_",    "OPENBLAS_"};

// Whoever reads them may join the job, so they are not shown.
constexpr std::array<std::string_view, 2> kSecret = {"LOCKSTEP_STORE_TOKEN", "LOCKSTEP_TOKEN"};

const Known* find(std::string_view name) {
  const auto found = std::find_if(kKnown.begin(), kKnown.end(), [&](const Known& known) { return known.name == name; });
  return found == kKnown.end() ? nullptr : &*found;
}

bool is_of_a_family(std::string_view name) {
  return std::any_of(kFamilies.begin(), kFamilies.end(), [&](auto prefix) { return name.starts_with(prefix); });
}

bool is_secret(const std::string& name) { return std::find(kSecret.begin(), kSecret.end(), name) != kSecret.end(); }

}  // namespace

std::vector<Variable> all_variables(const std::vector<std::string>& environment) {
  std::map<std::string, Variable> variables;
  for (const Known& known : kKnown) {
    variables[std::string(known.name)] = {std::string(known.name), std::nullopt, std::string(known.meaning)};
  }
  for (const std::string& entry : environment) {
    const auto equals = entry.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = entry.substr(0, equals);
    if (find(name) == nullptr && !is_of_a_family(name)) continue;
    Variable& variable = variables[name];
    variable.name = name;
    variable.value = is_secret(name) ? "(set, not shown)" : entry.substr(equals + 1);
  }
  std::vector<Variable> list;
  for (auto& [name, variable] : variables) list.push_back(std::move(variable));
  return list;
}

}  // namespace lockstep::worker
