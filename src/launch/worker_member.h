// SPDX-License-Identifier: Apache-2.0
// A worker of a group with what is kept of it.
#pragma once

#include <sys/types.h>

#include <memory>

#include "launch/hangs/flight_ring.h"
#include "launch/output/log_folder.h"
#include "launch/worker.h"

namespace lockstep::launch {

struct WorkerMember {
  std::unique_ptr<Worker> worker;
  std::unique_ptr<RankLog> log;
  std::unique_ptr<FlightRing> ring;
  pid_t pid = 0;
  bool has_ended = false;
  bool has_succeeded = false;  ///< it has ended with 0
};

}  // namespace lockstep::launch
