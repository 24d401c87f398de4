// SPDX-License-Identifier: Apache-2.0
// torchrun's own store, so that programs that torchrun starts can meet through it.
#pragma once

#include <chrono>
#include <memory>

#include "lockstep/comm/discovery.h"
#include "lockstep/store/store.h"

namespace lockstep::comm {

/// Connects to the TCPStore at the plan's host and port; keys get the plan's prefix.
/// Blocks: until it answers.  Throws: PeerError where nothing listens.
[[nodiscard]] std::shared_ptr<Store> connect_torch_store(const WorldPlan& plan, std::chrono::milliseconds timeout);

}  // namespace lockstep::comm
