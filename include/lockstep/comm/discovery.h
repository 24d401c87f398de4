// SPDX-License-Identifier: Apache-2.0
// Determines a process's rank, and where the ranks meet, from the environment. A pure function.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "lockstep/base/rank.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Environment variables by name.
using Environment = std::map<std::string, std::string>;

/// The store through which the ranks of a job meet.
enum class StoreKind {
  kNone,        ///< no store outside the process: a world of one rank
  kAgent,       ///< the launcher's store (`lockstep run`); every rank is a client
  kRankZero,    ///< ranks were started by hand or by a scheduler; rank 0 serves the store
  kTorchAgent,  ///< torchrun's TCPStore; every rank is a client
  kFile,        ///< rank 0 serves the store and writes its address into a file
};

/// A rank's place in the job, and how it joins.
struct WorldPlan {
  RankInfo info;                       ///< rank, local rank and world size
  StoreKind store = StoreKind::kNone;  ///< the store through which the ranks meet
  std::string host;                    ///< the store's host
  std::uint16_t port = 0;              ///< the store's port
  std::string token;                   ///< the job's secret, which grants access to the store; empty: none
  std::string prefix;                  ///< prefix of every key if other programs may use the store too; else empty
  std::filesystem::path file;          ///< the address file of StoreKind::kFile
};

/// Takes rank and world size from the first source that is set: torchrun's variables, Open MPI, Slurm (inside a step of
/// more than one task, unless PMI contradicts it), PMI. If none is set, the result is a world of one. Throws:
/// UsageError if a source is only partially set (the error names the missing variable), or if the rank is outside its
/// world.
[[nodiscard]] WorldPlan discover_world(const Environment& environment);

/// Returns the variables of this process that discover_world() reads.
[[nodiscard]] Environment current_environment();

}  // namespace lockstep

#pragma GCC visibility pop
