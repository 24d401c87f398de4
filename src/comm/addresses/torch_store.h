// SPDX-License-Identifier: Apache-2.0
// torchrun's own store, through which the ranks of a program started by torchrun can meet.
#pragma once

#include <chrono>
#include <memory>

#include "lockstep/comm/discovery.h"
#include "lockstep/store/store.h"

namespace lockstep::comm {

/// Connects to the TCPStore at the plan's host and port; keys get the plan's prefix.
/// Blocks: until it responds. Throws: PeerError if nothing listens there.
[[nodiscard]] std::shared_ptr<Store> connect_torch_store(const WorldPlan& plan, std::chrono::milliseconds timeout);

}  // namespace lockstep::comm
