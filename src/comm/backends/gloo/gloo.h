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

/// Connects the ranks to each other through the world's store; `store_host` says which of this host's addresses they
/// can reach (GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME names another interface). Rank 0 says what it chose.
/// Collective: yes. Blocks: until all are connected.
/// Throws: UsageError without Gloo; TimeoutError; PeerError.
[[nodiscard]] std::shared_ptr<Transport> make_gloo_transport(World world, const std::string& store_host,
                                                             std::chrono::milliseconds timeout);

/// Connects to torchrun's own store. Throws: UsageError without Gloo; PeerError where nothing listens.
[[nodiscard]] std::shared_ptr<Store> connect_torch_store(const WorldPlan& plan, std::chrono::milliseconds timeout);

}  // namespace lockstep::comm
