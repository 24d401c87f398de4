// SPDX-License-Identifier: Apache-2.0
// The environment of a worker: torchrun's variables and ours, without those of a scheduler that started the agent as
// one of its tasks. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/nodes/place.h"
#include "lockstep/store/store.h"

namespace lockstep::launch {

struct EnvironmentSpec {
  Place place;
  std::string master_addr;
  std::uint16_t master_port = 0;
  StoreAddress store;
  std::string store_prefix;  ///< prefix of the round's keys
  std::string error_file;
  std::string flight_ring;  ///< path of the rank's flight ring; empty if none
  std::string role;
  std::string run_id;
  int restart_count = 0;
  int max_world_size = 0;  ///< maximum number of ranks of the job
  int min_world_size = 0;  ///< minimum number of ranks with which an elastic job can continue; 0 if not elastic
  int max_restarts = 0;
  bool virtual_local_rank = false;  ///< LOCAL_RANK is 0, and one GPU is visible
  std::string blas_core;            ///< value for OPENBLAS_CORETYPE unless the user has set it; empty to leave it unset
  std::vector<std::pair<std::string, std::string>> extra;
};

/// Returns the worker's environment. `inherited` and the result are lists of NAME=VALUE.
[[nodiscard]] std::vector<std::string> worker_environment(const std::vector<std::string>& inherited,
                                                          const EnvironmentSpec& spec);

/// Returns true for a variable of a scheduler that makes a process one of its tasks.
[[nodiscard]] bool is_of_scheduler(std::string_view name);

/// Returns this process's environment.
[[nodiscard]] std::vector<std::string> own_environment();

}  // namespace lockstep::launch
