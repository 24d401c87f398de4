// SPDX-License-Identifier: Apache-2.0
// What moving gradients costs this machine's processors: short all-reduces of two ranks as children.
#pragma once

#include <string>

#include "lockstep/schedule/cluster.h"

namespace lockstep::apps {

struct MeasuredHost {
  schedule::HostCosts costs;
  std::string problem = {};  ///< why something is missing
};

/// Blocks: for some five seconds. What cannot be measured costs nothing, and is named.
[[nodiscard]] MeasuredHost measure_host();

/// Returns "this machine: 102 us a message, 1.31 GB/s through sockets, ...".
[[nodiscard]] std::string host_text(const schedule::HostCosts& costs);

}  // namespace lockstep::apps
