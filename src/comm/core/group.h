// SPDX-License-Identifier: Apache-2.0
// The only implementation of ProcessGroup: it checks the arguments, stages tensors that are not plain memory, and
// passes operations to the queue of a backend.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "comm/core/backend.h"
#include "comm/core/checks.h"
#include "comm/core/device_backend.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/comm/step_calls.h"

namespace lockstep::comm {

/// A group that its owner closes.
class OwnedGroup : public ProcessGroup {
 public:
  /// Leaves the group. With `orderly` the peers learn that this rank is done; otherwise this rank seems dead to them.
  /// Waits a bounded time for operations under way, and never throws.
  virtual void close(bool orderly) noexcept = 0;

  /// Implements check_group().
  virtual void check() = 0;

  /// Implements calls_of().
  virtual StepCalls calls_of(const std::function<void()>& work) = 0;
  /// Implements lockstep::note_on_host().
  virtual void note_on_host(const std::string& call) = 0;
  /// Implements replay_step().
  virtual void replay_step(std::uint64_t recorded, const std::function<void()>& launch) = 0;
};

/// A part of a group that becomes its own group (split()).
struct Part {
  std::vector<int> members;
  int rank = 0;      ///< this rank's number in the part
  std::string name;  ///< the part's name: the same for all members, and unique in the job
};

struct GroupOptions {
  Place place;
  std::chrono::milliseconds timeout{0};
  /// The transport of device tensors; if null, they go through host memory.
  std::unique_ptr<DeviceBackend> transport = nullptr;
  World world = {};  ///< the ranks' names, for transport errors
  /// Connects the members of a part. Collective over them.
  std::function<std::shared_ptr<OwnedGroup>(const Part& part)> form_part = nullptr;
};

[[nodiscard]] std::shared_ptr<OwnedGroup> make_group(std::unique_ptr<Backend> backend, GroupOptions options);

}  // namespace lockstep::comm
