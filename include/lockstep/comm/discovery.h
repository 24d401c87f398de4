// SPDX-License-Identifier: Apache-2.0
// How a process learns its rank and where the ranks meet: a pure function of the environment, so that it can be tested.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "lockstep/base/rank.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The variables that matter, by name.
using Environment = std::map<std::string, std::string>;

/// Through which store the ranks of a job meet.
enum class StoreKind {
  kNone,        ///< a world of one: inside the process
  kAgent,       ///< the launcher's store (`lockstep run`): every rank a client
  kRankZero,    ///< started by hand or by a scheduler: rank 0 serves
  kTorchAgent,  ///< torchrun's TCPStore: every rank a client
  kFile,        ///< rank 0 serves and writes its address into a file
};

/// A rank's place and its way into the job.
struct WorldPlan {
  RankInfo info;
  StoreKind store = StoreKind::kNone;
  std::string host;
  std::uint16_t port = 0;
  std::string token;
  std::string prefix;          ///< before every key, where the store is used by others too
  std::filesystem::path file;  ///< of kFile
};

/// Rank and world from the first that is there: torchrun's variables, Slurm (inside a step of more than one task), Open
/// MPI, PMI; else a world of one. Throws: UsageError naming the missing variable of a half-set environment, or a rank
/// outside of its world.
[[nodiscard]] WorldPlan discover_world(const Environment& environment);

/// This process's variables that discover_world() reads.
[[nodiscard]] Environment current_environment();

}  // namespace lockstep

#pragma GCC visibility pop
