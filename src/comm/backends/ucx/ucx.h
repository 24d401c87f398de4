// SPDX-License-Identifier: Apache-2.0
// The ranks' way to each other over UCX, for InfiniBand and RoCE. The library is loaded when it is first asked for;
// no_ucx.cpp is the build without its headers.
#pragma once

#include <memory>
#include <string>

#include "comm/network/transport.h"

namespace lockstep::comm {

/// Returns "1.13.1", the version of the library; empty where it cannot be loaded.
[[nodiscard]] std::string ucx_version();

/// Makes the ranks' way to each other, who find each other in the world's store; `store_host` says by which interface
/// they reach it, as in make_tcp_network(). UCX's own variables (UCX_TLS, UCX_NET_DEVICES) go before what is chosen
/// here. Two ranks connect at their first message, so that connecting takes no time and a rank that never comes is a
/// matter of the first exchange.
/// Collective: no.  Blocks: no.  Throws: UsageError where UCX cannot be loaded.
[[nodiscard]] std::shared_ptr<Network> make_ucx_network(World world, const std::string& store_host);

}  // namespace lockstep::comm
