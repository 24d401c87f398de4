// SPDX-License-Identifier: Apache-2.0
// The two ProcessGroups: a world of one, and a queue over a backend.
#pragma once

#include <chrono>
#include <memory>

#include "comm/backend.h"
#include "lockstep/comm/process_group.h"

namespace lockstep::comm {

/// A group whose owner says when it leaves.
class OwnedGroup : public ProcessGroup {
 public:
  /// `orderly`: the peers are told that this rank is done; else they find it dead. Never blocks for long, never throws.
  virtual void close(bool orderly) noexcept = 0;
};

/// A world of one: every collective is checked, then done.
[[nodiscard]] std::unique_ptr<OwnedGroup> make_local_group();

[[nodiscard]] std::unique_ptr<OwnedGroup> make_queued_group(std::unique_ptr<Backend> backend, int rank, int world,
                                                            std::chrono::milliseconds timeout);

}  // namespace lockstep::comm
