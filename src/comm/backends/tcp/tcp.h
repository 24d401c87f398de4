// SPDX-License-Identifier: Apache-2.0
// Connections between ranks over TCP.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "comm/network/transport.h"
#include "comm/network/wire.h"

namespace lockstep::comm {

/// The settings of the connections between ranks.
struct TcpOptions {
  std::string store_host;                ///< the store's host; the route to it determines the interface
  std::chrono::milliseconds timeout{0};  ///< the job's timeout for an exchange
  Wire wire = Wire::kAuto;               ///< the wire, the same on every rank
  std::string token;                     ///< the secret that the store requires; empty if there is none
};

/// Creates the connections between ranks, which find each other in the world's store. LOCKSTEP_SOCKET_IFNAME,
/// GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME selects an interface other than the one that leads to the store. Rank 0
/// logs its choice when it first connects.
/// Collective: no. Blocks: no.
[[nodiscard]] std::shared_ptr<Network> make_tcp_network(World world, const TcpOptions& options);

}  // namespace lockstep::comm
