// SPDX-License-Identifier: Apache-2.0
// A worker's position among all workers of a round.
#pragma once

namespace lockstep::launch {

/// One worker's place. All fields except `local_rank` are the same for all workers of a node.
struct Place {
  int local_rank = 0;
  int local_world_size = 1;
  int first_rank = 0;  ///< rank of this node's local rank 0
  int world_size = 1;
  int node_rank = 0;
  int nodes = 1;
};

}  // namespace lockstep::launch
