// SPDX-License-Identifier: Apache-2.0
#include "schedule/collective_phases.h"

namespace lockstep::schedule {
namespace {

constexpr std::int64_t kDescriptor = 48;                   // what ranks compare before each collective
constexpr std::int64_t kOnePass = std::int64_t{32} << 10;  // up to here every rank reduces everything

std::int64_t share(std::int64_t bytes, int of) { return (bytes + of - 1) / of; }

/// The partial sums that a machine sends in a reduction: its largest whole subtrees of the tree over all ranks. The
/// machine in the middle has most; ranks are its replicas.
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

int most_rows(const Cluster& cluster) {
  int most = 1;
  for (int machine = 0; machine < cluster.machines; ++machine) {
    const int rows = rows_of_machine(machine, cluster.gpus, cluster.ranks());
    most = rows > most ? rows : most;
  }
  return most;
}

std::vector<Phase> flat(const Call& call, int ranks) {
  std::vector<Phase> phases = {{.among = Among::kAll, .bytes = kDescriptor}};
  switch (call.kind) {
    case CallKind::kBarrier:
      break;
    case CallKind::kAllReduce:
      if (call.bytes <= kOnePass) {
        phases.push_back({.among = Among::kAll, .bytes = call.bytes});
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
      return {{.among = Among::kHost, .bytes = call.bytes / 2}};  // reads all of it, writes one result instead of all
    case CallKind::kAllGather:
      return {{.among = Among::kHost, .copied = call.bytes}};
    case CallKind::kBroadcast:
      return {{.among = Among::kHost, .copied = call.bytes}};
  }
  return {};
}

std::vector<Phase> hierarchical(const Call& call, const Cluster& cluster) {
  const Phase compare{.among = Among::kLeaders, .bytes = kDescriptor};
  const Phase meet{.among = Among::kHost};
  if (call.kind == CallKind::kBroadcast) {
    return {meet,
            compare,
            {.among = Among::kRootOfLeaders, .bytes = call.bytes},
            {.among = Among::kHost, .copied = call.bytes}};
  }
  if (call.kind == CallKind::kBarrier) return {meet, compare, meet};
  if (call.kind != CallKind::kAllReduce) return flat(call, cluster.ranks());
  const int rows = most_rows(cluster);
  std::vector<Phase> phases = {meet, compare, {.among = Among::kHost, .bytes = call.bytes / 2}};
  if (call.bytes <= kOnePass) {
    phases.push_back({.among = Among::kLeaders, .bytes = call.bytes * rows});
  } else {
    phases.push_back({.among = Among::kLeaders, .bytes = share(call.bytes, cluster.machines) * rows});
    phases.push_back({.among = Among::kLeaders, .bytes = share(call.bytes, cluster.machines)});
  }
  phases.push_back({.among = Among::kHost, .copied = call.bytes});
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
    case Backend::kGloo:
      break;
  }
  return flat(call, cluster.ranks());
}

}  // namespace lockstep::schedule
