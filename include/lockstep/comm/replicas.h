// SPDX-License-Identifier: Apache-2.0
// The assignment of replicas to ranks, and the order in which their values are added. These are pure functions, which
// every rank evaluates on its own.
//
// A run has `replicas` data-parallel replicas on `world` ranks, world <= replicas. Sums over replicas are computed in
// the order of tree(0, replicas): tree(lo, hi) = tree(lo, middle) + tree(middle, hi), with middle = lo + the largest
// power of two below hi - lo. A rank holds a block of consecutive replicas; other ranks need only the sums of the
// largest whole subtrees in its block. So neither the order of additions nor any bit of the result depends on the world
// size.
#pragma once

#include <vector>

#pragma GCC visibility push(default)

namespace lockstep {

/// The replicas begin, begin + 1, ..., end - 1.
struct ReplicaSpan {
  int begin = 0;  ///< first replica
  int end = 0;    ///< one past the last replica

  /// Returns the number of replicas.
  [[nodiscard]] int size() const noexcept { return end - begin; }
  bool operator==(const ReplicaSpan&) const = default;
};

/// Returns the split of tree(lo, hi): lo + the largest power of two below hi - lo. Requires hi - lo > 1.
[[nodiscard]] int tree_split(int lo, int hi);

/// Returns the replicas of `rank`: every r with floor(r * world / replicas) == rank. The span is never empty if world
/// <= replicas.
[[nodiscard]] ReplicaSpan replicas_of_rank(int rank, int world, int replicas);

/// Returns the largest subtrees of tree(0, replicas) that are wholly inside `block`, from left to right.
[[nodiscard]] std::vector<ReplicaSpan> whole_subtrees(ReplicaSpan block, int replicas);

/// Updates the list of partial sums when a replica has finished. `stack` holds the whole subtrees up to the replica
/// before `replica`; the result holds those up to `replica`. The last entry of the result was formed from the last
/// stack.size() - result.size() + 1 entries of `stack`.
[[nodiscard]] std::vector<ReplicaSpan> push_replica(std::vector<ReplicaSpan> stack, int replica, int replicas);

}  // namespace lockstep

#pragma GCC visibility pop
