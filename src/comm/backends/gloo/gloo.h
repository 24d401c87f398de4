// SPDX-License-Identifier: Apache-2.0
// All that is built on c10d stands behind these three functions; no_gloo.cpp gives the build without Gloo's headers.
#pragma once

#include <chrono>
#include <memory>

#include "comm/core/transport.h"
#include "lockstep/comm/discovery.h"
#include "lockstep/store/store.h"

namespace lockstep::comm {

[[nodiscard]] bool has_gloo() noexcept;

/// Makes the ranks' way to each other, who find each other in the world's store; `store_host` says which of this host's
/// addresses they can reach (GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME names another interface). Rank 0 says what it
/// chose when it first connects.
/// Collective: no.  Blocks: no.  Throws: UsageError without Gloo.
[[nodiscard]] std::shared_ptr<Network> make_gloo_network(World world, const std::string& store_host,
                                                         std::chrono::milliseconds timeout);

/// Connects to torchrun's own store. Throws: UsageError without Gloo; PeerError where nothing listens.
[[nodiscard]] std::shared_ptr<Store> connect_torch_store(const WorldPlan& plan, std::chrono::milliseconds timeout);

}  // namespace lockstep::comm
