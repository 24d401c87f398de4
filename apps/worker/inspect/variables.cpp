// SPDX-License-Identifier: Apache-2.0
#include "worker/inspect/variables.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "lockstep/base/printable.h"

namespace lockstep::worker {
namespace {

struct Known {
  std::string_view name;
  std::string_view meaning;
};

// Every variable that Lockstep's sources read (a test compares this list with them), and variables that users set for
// Lockstep's libraries. Sorted by name; kFamilies lists whole families by their prefix.
constexpr std::array kKnown = {
    Known{"ATEN_CPU_CAPABILITY",
          "the highest instruction set that libtorch uses; changing it changes the bits of the results"},
    Known{"COLUMNS", "width of the output when it is not written to a terminal"},
    Known{"CUDA_LAUNCH_BLOCKING", "1: the host waits for every kernel, which locates errors but is slow"},
    Known{"CUDA_VISIBLE_DEVICES", "the GPUs visible to this process, and their order"},
    Known{"DNNL_DEFAULT_FPMATH_MODE", "an older name of ONEDNN_DEFAULT_FPMATH_MODE"},
    Known{"DNNL_MAX_CPU_ISA", "an older name of ONEDNN_MAX_CPU_ISA"},
    Known{"GLOO_SOCKET_IFNAME", "used if LOCKSTEP_SOCKET_IFNAME is not set; takes precedence over NCCL_SOCKET_IFNAME"},
    Known{"GOTO_NUM_THREADS", "used if OPENBLAS_NUM_THREADS is not set"},
    Known{"GROUP_RANK", "this host's number (torchrun)"},
    Known{"GROUP_WORLD_SIZE", "the number of hosts (torchrun)"},
    Known{"HOME", "contains .cache/lockstep, the folder of fetched files"},
    Known{"LOCAL_RANK", "this rank's number on its host, which selects its GPU"},
    Known{"LOCAL_WORLD_SIZE", "ranks on this host"},
    Known{"LOCKSTEP_BACKEND", "the same as --backend"},
    Known{"LOCKSTEP_DEVICE", "the same as --device"},
    Known{"LOCKSTEP_ERROR_FILE", "the file in which a rank writes why it failed; set by lockstep run"},
    Known{"LOCKSTEP_FAULT", "flip:WHAT:rank=R:step=K[:always]: flips a bit, to test the guard (exactness.md)"},
    Known{"LOCKSTEP_FETCH_MIN_SPEED",
          "a download slower than this many bytes per second is aborted (default 1000; 0: never)"},
    Known{"LOCKSTEP_FLIGHT", "off: no flight recorder; otherwise the recorder's file, set by lockstep run"},
    Known{"LOCKSTEP_GPU_KERNELS", "0: use libtorch's layers on a GPU instead of kernels compiled at run time"},
    Known{"LOCKSTEP_HOST_ID", "ranks with the same value are assumed to share memory"},
    Known{"LOCKSTEP_LOG", "log level: error, warn, note (default), info, debug, trace"},
    Known{"LOCKSTEP_MAX_WORLD_SIZE",
          "maximum number of ranks of the job, and its default number of replicas; set by lockstep run"},
    Known{"LOCKSTEP_MIN_WORLD_SIZE",
          "minimum number of ranks with which a job of --nnodes MIN:MAX continues; set by lockstep run"},
    Known{"LOCKSTEP_NCCL",
          "the libnccl.so.2 to use; otherwise one that is already loaded, one beside libtorch, or the system's"},
    Known{"LOCKSTEP_NUMA", "0: ranks are not bound to the CPUs near their GPU"},
    Known{"LOCKSTEP_QUIET", "1: no banner, no progress and no table; set by --quiet, together with LOCKSTEP_LOG=warn"},
    Known{"LOCKSTEP_SECTION_TIMEOUT", "NAME=SECONDS,...: how long a rank may stay in a section (hangs.md)"},
    Known{"LOCKSTEP_SHARE_GPUS",
          "1: several ranks may share a GPU; nccl: they also exchange tensors over NCCL (for tests only)"},
    Known{"LOCKSTEP_SOCKET_IFNAME", "the network interface for tcp; takes precedence over GLOO_SOCKET_IFNAME"},
    Known{"LOCKSTEP_STACKS", "off: the launcher does not read the stacks of a hanging rank"},
    Known{"LOCKSTEP_STANDBY", "the file descriptor on which a process waits to become a rank; set by the launcher"},
    Known{"LOCKSTEP_START_NOTES",
          "the launcher's notes, which a rank prints once settings and data are valid; set by lockstep"},
    Known{"LOCKSTEP_STORE", "host:port of the launcher's store; set by lockstep run"},
    Known{"LOCKSTEP_STORE_PREFIX",
          "prefix of the keys that the ranks of one round use in the launcher's store; set by lockstep run"},
    Known{"LOCKSTEP_STORE_TOKEN", "the secret of the launcher's store; set by lockstep run"},
    Known{"LOCKSTEP_TIMEOUT", "seconds that a collective may take (default 300)"},
    Known{"LOCKSTEP_TLS_CA", "the PEM file of the certificates that the store may present; default: LOCKSTEP_TLS_CERT"},
    Known{"LOCKSTEP_TLS_CERT",
          "the PEM file of the store's certificate; if set, connections to the store are encrypted"},
    Known{"LOCKSTEP_TLS_KEY", "the PEM file of the private key for LOCKSTEP_TLS_CERT, on the store's host"},
    Known{"LOCKSTEP_TOKEN", "the shared secret of a multi-node run; must be the same on every node"},
    Known{"LOCKSTEP_TRUST_NETWORK",
          "set by --trust-network: the store and the ranks reject connections from outside that network"},
    Known{"LOCKSTEP_WIRE", "the same as --wire"},
    Known{"MALLOC_ARENA_MAX",
          "if set, freed memory is returned as the C library does by default, and not kept for the next step"},
    Known{"MALLOC_MMAP_MAX_", "the same"},
    Known{"MALLOC_TOP_PAD_", "the same"},
    Known{"MALLOC_TRIM_THRESHOLD_", "the same"},
    Known{"MASTER_ADDR", "host of rank 0"},
    Known{"MASTER_PORT", "the port on rank 0's host where the ranks meet"},
    Known{"MKL_CBWR", "the instruction set whose results MKL reproduces exactly"},
    Known{"MKL_DEBUG_CPU_TYPE", "the processor whose kernels older versions of MKL use"},
    Known{"MKL_ENABLE_INSTRUCTIONS", "the highest instruction set that MKL uses"},
    Known{"MPI_LOCALNRANKS", "MPICH's name for LOCAL_WORLD_SIZE"},
    Known{"MPI_LOCALRANKID", "MPICH's name for LOCAL_RANK"},
    Known{"NCCL_BUFFSIZE", "bytes of NCCL's buffer for each pair of GPUs"},
    Known{"NCCL_DEBUG", "INFO or WARN: how much NCCL prints"},
    Known{"NCCL_DEBUG_SUBSYS", "INIT, COLL, NET or ALL: which parts of NCCL print under NCCL_DEBUG=INFO"},
    Known{"NCCL_IB_DISABLE", "1: plain sockets instead of InfiniBand"},
    Known{"NCCL_IB_HCA", "the InfiniBand cards to use"},
    Known{"NCCL_NET_GDR_LEVEL", "0: network cards do not write into GPU memory"},
    Known{"NCCL_P2P_DISABLE", "1: GPUs exchange data through the host's memory"},
    Known{"NCCL_SHM_DISABLE", "1: no /dev/shm between the GPUs of a host"},
    Known{"NCCL_SOCKET_IFNAME", "the network interfaces of NCCL and of tcp; ^ before the list excludes them"},
    Known{"NCCL_TIMEOUT", "used if LOCKSTEP_TIMEOUT is not set"},
    Known{"NO_COLOR", "if set, no colours"},
    Known{"OMPI_COMM_WORLD_LOCAL_RANK", "Open MPI's name for LOCAL_RANK"},
    Known{"OMPI_COMM_WORLD_LOCAL_SIZE", "Open MPI's name for LOCAL_WORLD_SIZE"},
    Known{"OMPI_COMM_WORLD_RANK", "Open MPI's name for RANK"},
    Known{"OMPI_COMM_WORLD_SIZE", "Open MPI's name for WORLD_SIZE"},
    Known{"OMP_NUM_THREADS", "libtorch threads if the setting `threads` is not set"},
    Known{"ONEDNN_DEFAULT_FPMATH_MODE",
          "bf16: oneDNN may round float32 products to bf16, which changes the bits of the results"},
    Known{"ONEDNN_MAX_CPU_ISA",
          "the highest instruction set that oneDNN uses; changing it changes the bits of the results"},
    Known{"OPENBLAS_CORETYPE",
          "the processor whose kernels OpenBLAS uses; if unset: the best that this processor supports"},
    Known{"OPENBLAS_NUM_THREADS", "OpenBLAS threads; takes precedence over GOTO_NUM_THREADS and OMP_NUM_THREADS"},
    Known{"PATH", "where lockstep run looks for a program"},
    Known{"PET_NNODES",
          "used if --nnodes is not given, as with torchrun; lockstep run reads all of torchrun's PET_ variables"},
    Known{"PET_NODE_RANK", "used if --node-rank is not given"},
    Known{"PET_NPROC_PER_NODE", "used if --nproc-per-node is not given"},
    Known{"PMI_LOCAL_RANK", "the local rank under PALS; used if MPI_LOCALRANKID is not set"},
    Known{"PMI_LOCAL_SIZE", "the ranks of this host under PALS; used if MPI_LOCALNRANKS is not set"},
    Known{"PMI_NODE", "MPICH's number of this host"},
    Known{"PMI_RANK", "MPICH's name for RANK"},
    Known{"PMI_SIZE", "MPICH's name for WORLD_SIZE"},
    Known{"PYTHON_EXEC", "the Python that lockstep run starts a .py file with, as torchrun does"},
    Known{"RANK", "this rank's number"},
    Known{"ROLE_RANK", "torchrun's name for RANK among the ranks of one role"},
    Known{"ROLE_WORLD_SIZE", "torchrun's name for WORLD_SIZE among the ranks of one role"},
    Known{"SLURM_ARRAY_JOB_ID", "the job array whose task is requeued"},
    Known{"SLURM_ARRAY_TASK_ID", "the array task that is requeued"},
    Known{"SLURM_JOB_ID", "the job that is requeued; srun's ranks derive their port from it and the step"},
    Known{"SLURM_LOCALID", "Slurm's name for LOCAL_RANK"},
    Known{"SLURM_NODEID", "Slurm's number of this host"},
    Known{"SLURM_NTASKS", "Slurm's name for WORLD_SIZE"},
    Known{"SLURM_PROCID", "Slurm's name for RANK"},
    Known{"SLURM_PTY_PORT", "set in a shell of srun --pty, which is one task of the step"},
    Known{"SLURM_STEP_ID",
          "the srun step; ranks are taken from Slurm only inside a step, and derive their port from it"},
    Known{"SLURM_STEP_NODELIST", "the hosts of the step; the ranks meet on the first"},
    Known{"SLURM_STEP_NUM_TASKS", "the ranks of the step; with 1 there is no job to join"},
    Known{"SLURM_STEP_TASKS_PER_NODE", "Slurm's name for LOCAL_WORLD_SIZE"},
    Known{"TERM", "dumb: no colours"},
    Known{"TMPDIR", "the folder for logs of lockstep run without --log-dir"},
    Known{"TORCHELASTIC_ERROR_FILE", "used if LOCKSTEP_ERROR_FILE is not set"},
    Known{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "used if --log-line-prefix-template is not given"},
    Known{"TORCHELASTIC_RESTART_COUNT", "above 0: the group was restarted and continues from its checkpoint"},
    Known{"TORCHELASTIC_RUN_ID", "the name of the job (torchrun)"},
    Known{"TORCHELASTIC_SIGNALS_TO_HANDLE", "used if --signals-to-handle is not given"},
    Known{"TORCHELASTIC_USE_AGENT_STORE", "True: torchrun's agent hosts the store"},
    Known{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "used if --shutdown-timeout is not given"},
    Known{"UCX_DEBUG_SIGNO", "the signal that stops a process for a debugger under --wire ucx (none)"},
    Known{"UCX_ERROR_SIGNALS", "the signals on which UCX prints a stack (none)"},
    Known{"UCX_HANDLE_ERRORS", "what UCX does on a crash (nothing)"},
    Known{"UCX_LOG_LEVEL", "info, warn, error or fatal (default): how much UCX prints under --wire ucx"},
    Known{"UCX_NET_DEVICES",
          "the devices for --wire ucx, such as mlx5_0:1,eth0; takes precedence over Lockstep's choice"},
    Known{"UCX_TCP_CONN_NB", "n: UCX blocks while it connects, for minutes if a host is gone (y)"},
    Known{"UCX_TCP_RX_SEG_SIZE", "how much UCX reads from a connection at once (256k)"},
    Known{"UCX_TLS", "the transports of --wire ucx"},
    Known{"WORLD_SIZE", "number of ranks"},
    Known{"XDG_CACHE_HOME", "contains lockstep/, the folder of fetched files; takes precedence over HOME"},
};

constexpr std::array<std::string_view, 10> kFamilies = {"CUDA_", "GLOO_",  "LOCKSTEP_", "MKL_",      "NCCL_",
                                                        "OMP_",  "SLURM_", "TORCH_",    "OPENBLAS_", "UCX_"};

// If a variable's name contains one of these words, its value is secret: for example, the token of a job, of Slurm's
// REST service or of an account. Users send the output of `inspect env` to others.
constexpr std::array<std::string_view, 8> kSecret = {"TOKEN",      "SECRET", "PASSW",   "PASSPHRASE",
                                                     "CREDENTIAL", "JWT",    "API_KEY", "ACCESS_KEY"};

const Known* find(std::string_view name) {
  const auto found = std::find_if(kKnown.begin(), kKnown.end(), [&](const Known& known) { return known.name == name; });
  return found == kKnown.end() ? nullptr : &*found;
}

bool is_of_a_family(std::string_view name) {
  return std::any_of(kFamilies.begin(), kFamilies.end(), [&](auto prefix) { return name.starts_with(prefix); });
}

bool is_secret(const std::string& name) {
  return std::any_of(kSecret.begin(), kSecret.end(), [&](auto part) { return name.find(part) != std::string::npos; });
}

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
    variable.value = is_secret(name) ? "(set, not shown)" : text::without_secrets(entry.substr(equals + 1));
  }
  std::vector<Variable> list;
  for (auto& [name, variable] : variables) list.push_back(std::move(variable));
  return list;
}

}  // namespace lockstep::worker
