// SPDX-License-Identifier: Apache-2.0
// A rank's place in the world, and a shard of a data set. These are plain values; nothing here communicates.
#pragma once

#include <cstdint>
#include <string>

#pragma GCC visibility push(default)

namespace lockstep {

/// This process's place among the ranks of its job.
struct RankInfo {
  int rank = 0;                  ///< 0 .. world_size - 1
  int world_size = 1;            ///< number of ranks in the job
  int local_rank = 0;            ///< 0 .. local_world_size - 1, on this host
  int local_world_size = 1;      ///< number of ranks on this host
  int node_rank = 0;             ///< this node's index, assigned by the launcher, from 0
  int restart_count = 0;         ///< number of times the launcher has restarted the ranks
  std::string source = "alone";  ///< the source of the values, in words ("torchrun's variables", "alone")

  bool operator==(const RankInfo&) const = default;
};

/// Part `index` of `count` equal parts of a data set. The data module uses nothing else from a Job.
struct ShardSpec {
  std::int64_t index = 0;  ///< index of the part, from 0
  std::int64_t count = 1;  ///< number of parts

  bool operator==(const ShardSpec&) const = default;
};

}  // namespace lockstep

#pragma GCC visibility pop
