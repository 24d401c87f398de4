// SPDX-License-Identifier: Apache-2.0
#include "simulate/collective_phases.h"

#include <algorithm>

namespace lockstep::simulate {
namespace {

constexpr std::int64_t kDescriptor = 40;                   // the descriptor that ranks compare before each collective
constexpr std::int64_t kOnePass = std::int64_t{32} << 10;  // up to this size every rank reduces everything
constexpr int kMostAtOnce = 8;  // up to this many ranks each sends to all others; more ranks take log2 rounds

std::int64_t share(std::int64_t bytes, int parts) { return (bytes + parts - 1) / parts; }

/// Returns the number of partial sums that a machine sends in a reduction: the largest whole subtrees of the tree over
/// all ranks that lie within it. The machine in the middle has the most.
int rows_of_machine(int machine, int gpus, int ranks) {
  int rows = 0;
  const int end = (machine + 1) * gpus;
  for (int begin = machine * gpus; begin < end; ++rows) {
    int size = 1;
    while (begin % (size * 2) == 0 && begin + size * 2 <= end) size *= 2;
    if (begin == 0 && end == ranks) size = ranks;
    begin += size;
  }
  return rows;
}

/// The largest number of rows of any machine, and whether all machines have the same number.
struct Rows {
  int most = 1;
  bool are_alike = true;
};

Rows rows_of(const Cluster& cluster) {
  const int first = rows_of_machine(0, cluster.gpus, cluster.ranks());
  Rows rows{.most = first};
  for (int machine = 1; machine < cluster.machines; ++machine) {
    const int here = rows_of_machine(machine, cluster.gpus, cluster.ranks());
    rows.are_alike = rows.are_alike && here == first;
    rows.most = std::max(rows.most, here);
  }
  return rows;
}

/// Adds the messages of comm's gather_around(): each of `count` ranks gets the `bytes` of all of them.
void gather_around(std::vector<Phase>& phases, Among among, int count, std::int64_t bytes) {
  if (count <= kMostAtOnce) {
    phases.push_back({.among = among, .bytes = bytes});
    return;
  }
  for (int known = 1; known < count; known *= 2) {
    phases.push_back({.among = among, .bytes = bytes * std::min(known, count - known), .distance = known});
  }
}

std::vector<Phase> flat(const Call& call, int ranks) {
  const bool is_small = call.kind == CallKind::kAllReduce && call.bytes <= kOnePass;
  // The descriptors are sent with the data, as in comm's reduce_at_once().
  if (is_small && ranks <= kMostAtOnce) return {{.among = Among::kAll, .bytes = kDescriptor + call.bytes}};
  std::vector<Phase> phases;
  gather_around(phases, Among::kAll, ranks, kDescriptor);
  switch (call.kind) {
    case CallKind::kBarrier:
      break;
    case CallKind::kAllReduce:
      if (is_small) {
        gather_around(phases, Among::kAll, ranks, call.bytes);
      } else {
        phases.insert(phases.end(), 2, {.among = Among::kAll, .bytes = share(call.bytes, ranks)});
      }
      break;
    case CallKind::kReduceScatter:
      phases.push_back({.among = Among::kAll, .bytes = share(call.bytes, ranks)});
      break;
    case CallKind::kAllGather:
      phases.push_back({.among = Among::kAll, .bytes = share(call.bytes, ranks)});
      break;
    case CallKind::kBroadcast:
      phases.push_back({.among = Among::kRoot, .bytes = call.bytes});
      break;
  }
  return phases;
}

std::vector<Phase> in_memory(const Call& call) {
  switch (call.kind) {
    case CallKind::kBarrier:
      return {{.among = Among::kHost}};
    case CallKind::kAllReduce:
      return {{.among = Among::kHost, .bytes = call.bytes}};
    case CallKind::kReduceScatter:
      return {{.among = Among::kHost,
               .bytes = call.bytes / 2}};  // it reads everything, but writes one result instead of all
    case CallKind::kAllGather:
      return {{.among = Among::kHost, .copied = call.bytes}};
    case CallKind::kBroadcast:
      return {{.among = Among::kHost, .copied = call.bytes}};
  }
  return {};
}

/// Adds the messages between the leaders in a reduction.
void reduce_between_machines(std::vector<Phase>& phases, std::int64_t bytes, const Cluster& cluster) {
  const Rows rows = rows_of(cluster);
  if (bytes <= kOnePass && rows.are_alike) {
    gather_around(phases, Among::kLeaders, cluster.machines, bytes * rows.most);
  } else if (bytes <= kOnePass) {
    phases.push_back({.among = Among::kLeaders, .bytes = bytes * rows.most});
  } else {
    phases.push_back({.among = Among::kLeaders, .bytes = share(bytes, cluster.machines) * rows.most});
    phases.push_back({.among = Among::kLeaders, .bytes = share(bytes, cluster.machines)});
  }
}

std::vector<Phase> hierarchical(const Call& call, const Cluster& cluster) {
  const Phase meet{.among = Among::kHost};
  std::vector<Phase> phases = {meet};
  gather_around(phases, Among::kLeaders, cluster.machines, kDescriptor);
  switch (call.kind) {
    case CallKind::kBarrier:
      phases.push_back(meet);
      return phases;
    case CallKind::kBroadcast:
      phases.push_back({.among = Among::kHost, .copied = call.bytes});
      phases.push_back({.among = Among::kRootOfLeaders, .bytes = call.bytes});
      phases.push_back({.among = Among::kHost, .copied = call.bytes});
      return phases;
    case CallKind::kAllReduce:
      phases.push_back({.among = Among::kHost, .bytes = call.bytes / 2});
      reduce_between_machines(phases, call.bytes, cluster);
      phases.push_back({.among = Among::kHost, .copied = call.bytes});
      return phases;
    case CallKind::kReduceScatter:
      phases.push_back({.among = Among::kHost, .bytes = call.bytes / 2});
      phases.push_back(
          {.among = Among::kLeaders, .bytes = share(call.bytes, cluster.machines) * rows_of(cluster).most});
      phases.push_back({.among = Among::kHost, .copied = share(call.bytes, cluster.ranks())});
      return phases;
    case CallKind::kAllGather:
      phases.push_back({.among = Among::kHost, .copied = share(call.bytes, cluster.ranks())});
      phases.push_back({.among = Among::kLeaders, .bytes = share(call.bytes, cluster.machines)});
      phases.push_back({.among = Among::kHost, .copied = call.bytes});
      return phases;
  }
  return phases;
}

}  // namespace

std::vector<Phase> phases_of(const Call& call, const Cluster& cluster) {
  if (cluster.ranks() == 1) return {};
  switch (cluster.chosen()) {
    case Backend::kShm:
      return in_memory(call);
    case Backend::kHierarchical:
      return hierarchical(call, cluster);
    case Backend::kNccl:
      return {{.among = Among::kDevices, .bytes = call.bytes, .kind = call.kind}};
    case Backend::kAuto:
    case Backend::kTcp:
      break;
  }
  return flat(call, cluster.ranks());
}

}  // namespace lockstep::simulate
