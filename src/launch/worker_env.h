// SPDX-License-Identifier: Apache-2.0
// What a worker finds in its environment: torchrun's variables, ours, and nothing of the scheduler that started the
// agent as one task of its own. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/store/store.h"

namespace lockstep::launch {

/// One worker's place; the same fields for all workers of a node but `local_rank`.
struct Place {
  int local_rank = 0;
  int local_world_size = 1;
  int first_rank = 0;  ///< rank of this node's local rank 0
  int world_size = 1;
  int node_rank = 0;
  int nodes = 1;
};

struct EnvironmentSpec {
  Place place;
  std::string master_addr;
  std::uint16_t master_port = 0;
  StoreAddress store;
  std::string error_file;
  std::string role;
  std::string run_id;
  int restart_count = 0;
  int max_restarts = 0;
  std::string blas_core;  ///< OPENBLAS_CORETYPE where nobody has set it; empty: left unset
  std::vector<std::pair<std::string, std::string>> extra;
};

/// `inherited` and the result are lists of NAME=VALUE.
[[nodiscard]] std::vector<std::string> worker_environment(const std::vector<std::string>& inherited,
                                                          const EnvironmentSpec& spec);

/// This process's environment.
[[nodiscard]] std::vector<std::string> own_environment();

}  // namespace lockstep::launch
