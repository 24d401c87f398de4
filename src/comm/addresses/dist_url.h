// SPDX-License-Identifier: Apache-2.0
// `--dist_url env://`, `tcp://host:port`, `file:///path`: PyTorch's ways to name the meeting place of the ranks. A pure
// function that turns one into the variables that discover_world() reads.
#pragma once

#include <optional>
#include <string>

#include "lockstep/comm/discovery.h"

namespace lockstep::comm {

/// The values of the command line, which win over the environment.
struct DistArguments {
  std::string url;                                       ///< empty: env://
  std::optional<std::string> rank = std::nullopt;        ///< --rank
  std::optional<std::string> world_size = std::nullopt;  ///< --world_size
  std::optional<std::string> local_rank = std::nullopt;  ///< --local_rank, as torch.distributed.launch passes it
};

/// Returns the plan that `arguments` and `environment` describe. tcp:// and file:// win over a launcher's store; rank
/// and world size come from the address (?rank=0&world_size=4), else from the arguments, else from the environment.
/// With env:// the arguments repeat the environment: programs of torch.distributed.launch pass them, with -1 for
/// unknown.
/// Throws: UsageError for another kind of address, naming the valid ones; for a missing rank or world size; and for an
/// argument that contradicts the environment, naming both values.
[[nodiscard]] WorldPlan plan_world(const DistArguments& arguments, const Environment& environment);

/// Returns an address of this host that other hosts reach: that of its name, unless that is only the loopback.
[[nodiscard]] std::string own_address();

}  // namespace lockstep::comm
