// SPDX-License-Identifier: Apache-2.0
// The state that copies of a Job share; its destructor leaves the job.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "comm/core/failure.h"
#include "comm/core/group.h"
#include "lockstep/comm/discovery.h"
#include "lockstep/comm/job.h"

namespace lockstep {

class Job::State {
 public:
  State() = default;
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  WorldPlan plan;
  std::string host;
  c10::Device device{c10::kCPU};
  bool may_share_gpu = false;  ///< value of HostFacts::may_share_gpu
  Wire wire = Wire::kAuto;
  int replicas = 1;
  std::chrono::milliseconds timeout{0};
  std::string backend_reason;
  std::unique_ptr<StoreServer> server;  ///< the store's server, on rank 0 if no launcher serves it; destroyed last
  std::shared_ptr<Store> store;
  std::int64_t program = 1;  ///< the number of this program among those that this rank's script has started
  std::shared_ptr<comm::OwnedGroup> group;
  std::atomic<bool> failed{false};
};

}  // namespace lockstep
