// SPDX-License-Identifier: Apache-2.0
// The build without Gloo (LOCKSTEP_GLOO=OFF).
#include "comm/backends/gloo/gloo.h"
#include "lockstep/base/error.h"

namespace lockstep::comm {

bool has_gloo() noexcept { return false; }

std::shared_ptr<Network> make_gloo_network(World /*world*/, const std::string& /*store_host*/,
                                           std::chrono::milliseconds /*timeout*/) {
  throw UsageError("this build has no gloo backend", "configure with -DLOCKSTEP_GLOO=ON (needs libgloo-dev)");
}

std::shared_ptr<Store> connect_torch_store(const WorldPlan& /*plan*/, std::chrono::milliseconds /*timeout*/) {
  throw UsageError("this build cannot join torchrun's store",
                   "start it with `lockstep run`, or configure -DLOCKSTEP_GLOO=ON");
}

}  // namespace lockstep::comm
