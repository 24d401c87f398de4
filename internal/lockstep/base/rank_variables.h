// SPDX-License-Identifier: Apache-2.0
// The environment variables by which each launcher gives a process its rank.
#pragma once

#include <array>

#pragma GCC visibility push(default)

namespace lockstep {

/// The names of one launcher's variables.
struct RankVariables {
  const char* source;
  const char* rank;
  const char* world;
  const char* local_rank;
  const char* local_world;
  const char* node;  ///< nullptr if the launcher does not number the hosts
};

inline constexpr RankVariables kTorchrunVariables = {"torchrun's variables", "RANK",      "WORLD_SIZE", "LOCAL_RANK",
                                                     "LOCAL_WORLD_SIZE",     "GROUP_RANK"};
inline constexpr RankVariables kSlurmVariables = {
    "Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_NODEID"};
inline constexpr RankVariables kOpenMpiVariables = {
    "Open MPI",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    nullptr};  // OMPI_COMM_WORLD_NODE_RANK numbers the processes of a host
inline constexpr RankVariables kPmiVariables = {"PMI",     "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
                                                "PMI_NODE"};

/// SLURM_STEP_ID of the batch and the interactive step, which run a script, not ranks.
inline constexpr std::array kSlurmStepsWithoutRanks = {"4294967291", "4294967290"};

/// In the order in which they are read.
inline constexpr std::array kRankVariables = {kTorchrunVariables, kOpenMpiVariables, kSlurmVariables, kPmiVariables};

}  // namespace lockstep

#pragma GCC visibility pop
