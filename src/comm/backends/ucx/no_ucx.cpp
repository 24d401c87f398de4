// SPDX-License-Identifier: Apache-2.0
// Replaces UCX in builds without its headers.
#include "comm/backends/ucx/ucx.h"
#include "lockstep/base/error.h"

namespace lockstep::comm {

std::string ucx_version() { return ""; }

std::shared_ptr<Network> make_ucx_network(World /*world*/, const std::string& /*store_host*/) {
  throw UsageError("this build has no UCX", "build Lockstep where libucx-dev is installed, or leave out --wire ucx");
}

}  // namespace lockstep::comm
