// SPDX-License-Identifier: Apache-2.0
// Connections between ranks over UCX, for InfiniBand and RoCE. The library is loaded on first use; no_ucx.cpp is for
// builds without its headers.
#pragma once

#include <memory>
#include <string>

#include "comm/network/transport.h"

namespace lockstep::comm {

/// Returns "1.13.1", the version of the library; empty if it cannot be loaded.
[[nodiscard]] std::string ucx_version();

/// Creates the connections between ranks, which find each other in the world's store; `store_host` determines the
/// interface, as in make_tcp_network(). UCX's own variables (UCX_TLS, UCX_NET_DEVICES) take precedence over the choices
/// here. Two ranks connect when they exchange their first message, so this call returns at once, and a missing rank is
/// reported by the first exchange.
/// Collective: no. Blocks: no. Throws: UsageError if UCX cannot be loaded.
[[nodiscard]] std::shared_ptr<Network> make_ucx_network(World world, const std::string& store_host);

}  // namespace lockstep::comm
