// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/replicas.h"

#include <cstdint>

namespace lockstep {
namespace {

int first_replica(int rank, int world, int replicas) {
  const auto product = static_cast<std::int64_t>(rank) * replicas;
  return static_cast<int>((product + world - 1) / world);
}

bool is_subtree(ReplicaSpan span, int replicas) {
  ReplicaSpan node{0, replicas};
  while (node != span) {
    if (node.size() <= span.size()) return false;
    const int middle = tree_split(node.begin, node.end);
    if (span.end <= middle) {
      node.end = middle;
    } else if (span.begin >= middle) {
      node.begin = middle;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

int tree_split(int lo, int hi) {
  int power = 1;
  while (power * 2 < hi - lo) power *= 2;
  return lo + power;
}

ReplicaSpan replicas_of_rank(int rank, int world, int replicas) {
  return {first_replica(rank, world, replicas), first_replica(rank + 1, world, replicas)};
}

std::vector<ReplicaSpan> push_replica(std::vector<ReplicaSpan> stack, int replica, int replicas) {
  stack.push_back({replica, replica + 1});
  while (stack.size() > 1) {
    const ReplicaSpan both{stack[stack.size() - 2].begin, stack.back().end};
    if (!is_subtree(both, replicas)) break;
    stack.pop_back();
    stack.back() = both;
  }
  return stack;
}

std::vector<ReplicaSpan> whole_subtrees(ReplicaSpan block, int replicas) {
  std::vector<ReplicaSpan> stack;
  for (int replica = block.begin; replica < block.end; ++replica) stack = push_replica(stack, replica, replicas);
  return stack;
}

}  // namespace lockstep
