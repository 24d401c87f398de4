// SPDX-License-Identifier: Apache-2.0
// The only ProcessGroup: checks its arguments, stages tensors that are not plain memory, and passes operations to a
// queue over a backend.
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

/// A group whose owner closes it.
class OwnedGroup : public ProcessGroup {
 public:
  /// Leaves the group. With `orderly` the peers learn that this rank is done; else they find it dead. Waits a bounded
  /// time for operations under way, and never throws.
  virtual void close(bool orderly) noexcept = 0;

  /// As check_group().
  virtual void check() = 0;

  /// As calls_of().
  virtual StepCalls calls_of(const std::function<void()>& work) = 0;
  /// As lockstep::note_on_host().
  virtual void note_on_host(const std::string& call) = 0;
  /// As replay_step().
  virtual void replay_step(std::uint64_t recorded, const std::function<void()>& launch) = 0;
};

/// The members of a part of a group, as ranks of the group, in the part's order.
struct Part {
  std::vector<int> members;
  int rank = 0;      ///< this rank's number in the part
  std::string name;  ///< the same for all members; no other part of the job has it
};

struct GroupOptions {
  Place place;
  std::chrono::milliseconds timeout{0};
  /// Carries device tensors; null: they go through host memory.
  std::unique_ptr<DeviceBackend> transport = nullptr;
  World world = {};  ///< names the ranks in errors of the transport
  /// Connects the members of a part. Collective over them.
  std::function<std::shared_ptr<OwnedGroup>(const Part& part)> form_part = nullptr;
};

[[nodiscard]] std::shared_ptr<OwnedGroup> make_group(std::unique_ptr<Backend> backend, GroupOptions options);

}  // namespace lockstep::comm
