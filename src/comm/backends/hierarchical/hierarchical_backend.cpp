// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/hierarchical/hierarchical_backend.h"

#include <algorithm>
#include <cstring>

#include "comm/core/moves.h"
#include "lockstep/base/error.h"

namespace lockstep::comm {

HostRanks ranks_by_host(const std::vector<std::string>& host_ids) {
  HostRanks hosts;
  for (std::size_t rank = 0; rank < host_ids.size(); ++rank) {
    const auto same = std::find_if(hosts.begin(), hosts.end(), [&](const auto& ranks) {
      return host_ids[static_cast<std::size_t>(ranks.front())] == host_ids[rank];
    });
    if (same == hosts.end()) {
      hosts.push_back({static_cast<int>(rank)});
    } else {
      same->push_back(static_cast<int>(rank));
    }
  }
  return hosts;
}

bool is_hierarchy(const HostRanks& hosts) {
  bool several = false;
  for (const auto& ranks : hosts) {
    several = several || ranks.size() > 1;
    if (ranks.back() - ranks.front() + 1 != static_cast<int>(ranks.size())) return false;
  }
  return several && hosts.size() > 1;
}

namespace {

/// Returns the elements that each host's first rank combines. In an all_reduce each host combines its share, and the
/// first ranks exchange the results. In other reductions each host combines the consecutive elements that make up the
/// results of its own ranks.
std::vector<ElementRange> ranges_of_hosts(const Collective& collective, const HostRanks& hosts, int world) {
  const Descriptor& call = collective.call;
  if (call.kind == Kind::kAllReduce)
    return ranges_for_all(call.numel, collective.bytes, static_cast<int>(hosts.size()));
  std::vector<ElementRange> ranges;
  for (const auto& ranks : hosts) {
    ElementRange range;
    for (const int rank : ranks) {
      const ElementRange own = result_range(call, world, rank);
      if (own.size() > 0) range = {range.size() == 0 ? own.begin : range.begin, own.end};
    }
    ranges.push_back(range);
  }
  return ranges;
}

}  // namespace

HierarchicalBackend::HierarchicalBackend(ShmConnection connection, const World& host_world,
                                         std::shared_ptr<Network> network, HostRanks hosts)
    : shm_(std::move(connection), host_world), network_(std::move(network)), hosts_(std::move(hosts)) {
  const int rank = network_->world().rank;
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    leaders_.push_back(hosts_[host].front());
    if (rank >= hosts_[host].front() && rank <= hosts_[host].back()) host_ = static_cast<int>(host);
  }
  if (is_leader()) between_ = network_->connect("hosts");
}

bool HierarchicalBackend::is_leader() const noexcept { return shm_.world().rank == 0; }

std::unique_ptr<Runner> HierarchicalBackend::open_channel(int peer, bool sending) {
  const auto& own_ranks = hosts_[static_cast<std::size_t>(host_)];
  if (peer < own_ranks.front() || peer > own_ranks.back()) return make_network_channel(network_, peer, sending);
  return shm_.open_channel(peer - own_ranks.front(), sending);
}

void HierarchicalBackend::abort(const std::string& reason) noexcept {
  network_->abort();
  shm_.abort(reason);
}

template <class Step>
void HierarchicalBackend::watched(Step&& step) {
  try {
    step();
  } catch (const Error&) {
    const FailureRecord failure = shm_.segment().failure();
    const bool agent_reports = shm_.world().patience.count() > 0;
    if (is_leader() && failure.kind == FailureKind::kDied && !agent_reports) {
      network_->report_death(hosts_[static_cast<std::size_t>(host_)][static_cast<std::size_t>(failure.rank)]);
    }
    throw;
  }
}

template <class Step>
void HierarchicalBackend::between_hosts(Step&& step) {
  const auto record_failure = [&](FailureKind kind, const Error& error) {
    shm_.segment().fail(kind, shm_.world().rank, error.message());
  };
  try {
    step();
  } catch (const TimeoutError& error) {
    record_failure(FailureKind::kTimeout, error);
    throw;
  } catch (const UsageError& error) {
    record_failure(FailureKind::kMismatch, error);
    throw;
  } catch (const Error& error) {
    record_failure(FailureKind::kPeer, error);
    throw;
  }
}

void HierarchicalBackend::compare_hosts(const Collective& collective) {
  shm_.meet(collective);
  if (is_leader()) between_hosts([&] { compare_over(*between_, collective, leaders_); });
}

void HierarchicalBackend::meet(const Collective& collective) {
  watched([&] {
    shm_.announce(collective, 0);
    compare_hosts(collective);
    shm_.barrier().meet(collective);
  });
}

HierarchicalBackend::HostPart HierarchicalBackend::host_part(const Collective& collective, int host) const {
  const auto& ranks = hosts_[static_cast<std::size_t>(host)];
  const int all = network_->world().size;
  HostPart part;
  for (Piece piece : pieces_of(collective.call, all)) {
    if (piece.rank < ranks.front() || piece.rank > ranks.back()) continue;
    piece.rank -= ranks.front();
    part.pieces.push_back(piece);
  }
  const bool keeps_replicas = collective.call.replicas != 0 && collective.call.exact != 0;
  const ReplicaSpan block{part.pieces.front().span.begin, part.pieces.back().span.end};
  part.rows = whole_subtrees(block, keeps_replicas ? collective.call.replicas : all);
  return part;
}

/// Offers the leader's memory; all ranks of the host read its offset after the next meeting. Returns the memory that it
/// replaces, which ranks may read until then.
HierarchicalBackend::Memory HierarchicalBackend::offer_scratch(std::size_t bytes) {
  if (!is_leader() || offered_.bytes >= bytes) return {};
  const Memory old = offered_;
  offered_ = {shm_.segment().allocate(bytes), bytes};
  shm_.segment().slot(0).scratch.store(shm_.segment().offset_of(offered_.start, bytes), std::memory_order_release);
  return old;
}

/// Each rank combines its slice of the host's rows into the leader's scratch.
void HierarchicalBackend::reduce_in_host(const Collective& collective, const HostPart& part) {
  const auto dtype = dtype_of(collective.call);
  const auto wide = c10::elementSize(accumulator_of(dtype));
  const ReduceOp op = op_of(collective.call);
  const Reduction partial{dtype, op == ReduceOp::kMean ? ReduceOp::kSum : op, 1, accumulator_of(dtype)};
  const std::int64_t numel = collective.call.numel;
  const auto whole = static_cast<std::int64_t>(kStagingBytes / collective.item_bytes /
                                               static_cast<std::size_t>(most_rows(part.pieces)));
  const std::int64_t step = shm_.all_in_place(collective) ? numel : whole;
  for (std::int64_t begin = 0; begin < numel; begin += step) {
    const ElementRange chunk{begin, std::min(numel, begin + step)};
    const std::vector<TreeLeaf> leaves = shm_.leaves_of_chunk(collective, part.pieces, chunk);
    const ElementRange own_range = slice_of({chunk.size(), wide, shm_.world().size}, shm_.world().rank);
    for (std::size_t row = 0; row < part.rows.size() && own_range.size() > 0; ++row) {
      std::vector<TreeLeaf> own;
      for (TreeLeaf leaf : leaves) {
        if (leaf.span.begin < part.rows[row].begin || leaf.span.end > part.rows[row].end) continue;
        leaf.data += static_cast<std::size_t>(own_range.begin) * collective.item_bytes;
        own.push_back(leaf);
      }
      const auto at =
          (row * static_cast<std::size_t>(numel) + static_cast<std::size_t>(begin + own_range.begin)) * wide;
      tree_reduce(partial, own, {scratch_ + at}, own_range.size());
    }
  }
}

/// The leaders combine their hosts' rows, and put the result after the rows.
void HierarchicalBackend::reduce_between_hosts(const Collective& collective) {
  const auto dtype = dtype_of(collective.call);
  const World& all = network_->world();
  ExchangeReduce job;
  job.reduction = {accumulator_of(dtype), op_of(collective.call), divisor_of(collective.call, all.size), dtype};
  job.leaf_bytes = c10::elementSize(accumulator_of(dtype));
  job.result_bytes = collective.item_bytes;
  job.rows = scratch_;
  job.row_bytes = static_cast<std::size_t>(collective.call.numel) * job.leaf_bytes;
  const auto ranges = ranges_of_hosts(collective, hosts_, all.size);
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    job.contributors.push_back({leaders_[host], ranges[host], host_part(collective, static_cast<int>(host)).rows});
  }
  // The elements of the result are at most as wide as those of the rows, so with a single range the result could be
  // written in place without overwriting elements that have not been read. With several ranges it would overwrite rows
  // that are still to be sent, so it is written after the rows.
  const std::size_t rows = job.contributors[static_cast<std::size_t>(host_)].rows.size();
  std::byte* result = scratch_ + rows * job.row_bytes;
  job.output = result + static_cast<std::size_t>(ranges[static_cast<std::size_t>(host_)].begin) * job.result_bytes;
  between_hosts([&] {
    exchange_and_reduce(*between_, job, collective, received_);
    const bool for_all = collective.call.kind == Kind::kAllReduce;
    if (for_all && !is_one_pass(collective.bytes)) share_ranges(*between_, job, collective, result);
  });
}

void HierarchicalBackend::reduce(const Collective& collective) {
  watched([&] { reduce_through_hosts(collective); });
}

/// Compares the calls and gives this host's ranks `bytes` of the leader's scratch. No rank is still reading the old
/// contents.
void HierarchicalBackend::meet_with_scratch(const Collective& collective, std::size_t bytes, std::size_t announced) {
  Memory replaced;
  between_hosts([&] { replaced = offer_scratch(bytes); });
  shm_.announce(collective, announced);
  compare_hosts(collective);
  if (replaced.start != nullptr) shm_.segment().release(replaced.start, replaced.bytes);
  scratch_ = shm_.segment().region(0) + shm_.segment().slot(0).scratch.load(std::memory_order_acquire);
}

void HierarchicalBackend::reduce_through_hosts(const Collective& collective) {
  const HostPart part = host_part(collective, host_);
  const auto wide = c10::elementSize(accumulator_of(dtype_of(collective.call)));
  const auto rows_bytes = part.rows.size() * static_cast<std::size_t>(collective.call.numel) * wide;
  meet_with_scratch(collective, rows_bytes + collective.bytes + 1,
                    collective.bytes * static_cast<std::size_t>(collective.rows));
  if (collective.bytes > 0) {
    reduce_in_host(collective, part);
    shm_.barrier().meet(collective);
    if (is_leader()) reduce_between_hosts(collective);
  }
  shm_.barrier().meet(collective);
  // No rank writes there until the next meeting.
  const ElementRange own_range = result_range(collective.call, network_->world().size, network_->world().rank);
  if (collective.bytes == 0 || own_range.size() == 0) return;
  const auto item = collective.item_bytes;
  std::memcpy(collective.output, scratch_ + rows_bytes + static_cast<std::size_t>(own_range.begin) * item,
              static_cast<std::size_t>(own_range.size()) * item);
}

void HierarchicalBackend::move(const Collective& collective) {
  watched([&] {
    switch (collective.call.kind) {
      case Kind::kBroadcast:
        return broadcast(collective);
      case Kind::kAllGather:
      case Kind::kAllGatherInto:
      case Kind::kGather:
        return gather_through_hosts(collective);
      default:
        return move_between_ranks(collective);
    }
  });
}

/// Every rank's part goes into the leader's scratch, the leaders send each other their hosts' parts, and each rank
/// takes the parts that it needs.
void HierarchicalBackend::gather_through_hosts(const Collective& collective) {
  const World& all = network_->world();
  const MovePlan plan = plan_of(collective, all.size);
  std::vector<std::size_t> places = {0};  // offset of each rank's part, and the end
  for (int rank = 0; rank < all.size; ++rank) places.push_back(places.back() + outbox_bytes(plan, rank));
  meet_with_scratch(collective, places.back() + 1, 0);
  const std::size_t own = places[static_cast<std::size_t>(all.rank)];
  const std::size_t bytes = places[static_cast<std::size_t>(all.rank) + 1] - own;
  if (bytes > 0) std::memcpy(scratch_ + own, collective.data, bytes);
  shm_.barrier().meet(collective);
  if (is_leader()) exchange_parts(collective, places);
  shm_.barrier().meet(collective);
  // No rank writes there until the next meeting.
  for (const Move& part : moves_to(plan, all.rank)) {
    const std::byte* from = scratch_ + places[static_cast<std::size_t>(part.from)] + part.offset;
    std::memcpy(collective.output + part.place, from, part.bytes);
  }
}

void HierarchicalBackend::exchange_parts(const Collective& collective, const std::vector<std::size_t>& places) {
  const auto needs = [&](const std::vector<int>& ranks) {
    const int root = collective.call.root;
    return collective.call.kind != Kind::kGather || (root >= ranks.front() && root <= ranks.back());
  };
  const auto part_of = [&](const std::vector<int>& ranks) {
    const std::size_t begin = places[static_cast<std::size_t>(ranks.front())];
    return Message{ranks.front(), scratch_ + begin, places[static_cast<std::size_t>(ranks.back()) + 1] - begin};
  };
  const auto& own_ranks = hosts_[static_cast<std::size_t>(host_)];
  std::vector<Message> sends;
  std::vector<Message> receives;
  for (const auto& ranks : hosts_) {
    if (ranks.front() == own_ranks.front()) continue;
    Message own = part_of(own_ranks);
    own.rank = ranks.front();
    if (needs(ranks)) sends.push_back(own);
    if (needs(own_ranks)) receives.push_back(part_of(ranks));
  }
  between_hosts([&] { between_->exchange(sends, receives, collective); });
}

/// Runs scatter and all_to_all, whose messages each have one receiver, so hosts have nothing to combine. The hosts
/// compare their calls first, so that a rank with a different call gets its error before any rank waits for it.
void HierarchicalBackend::move_between_ranks(const Collective& collective) {
  shm_.announce(collective, 0);
  compare_hosts(collective);
  shm_.barrier().meet(collective);
  if (!flat_) flat_ = std::make_unique<FlatBackend>(network_);
  flat_->move_compared(collective);
}

/// The data go to the leader of the root's host, then to the other hosts' leaders, and each leader broadcasts them
/// within its host.
void HierarchicalBackend::broadcast(const Collective& collective) {
  const int root = collective.call.root;
  const auto& own_ranks = hosts_[static_cast<std::size_t>(host_)];
  const bool at_home = root >= own_ranks.front() && root <= own_ranks.back();
  shm_.announce(collective, network_->world().rank == root ? collective.bytes : 0);
  compare_hosts(collective);
  // No rank announces its next call before all have compared this one.
  shm_.barrier().meet(collective);
  Collective inside = collective;
  inside.call.root = at_home ? root - own_ranks.front() : 0;
  if (at_home) shm_.move(inside);
  if (is_leader()) send_to_hosts(collective, at_home);
  if (!at_home) shm_.move(inside);
}

/// The leader of the root's host sends to the other leaders.
void HierarchicalBackend::send_to_hosts(const Collective& collective, bool at_home) {
  std::vector<Message> sends;
  std::vector<Message> receives;
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    const auto& ranks = hosts_[host];
    const Message message{ranks.front(), collective.output, collective.bytes};
    const bool has_root = collective.call.root >= ranks.front() && collective.call.root <= ranks.back();
    if (at_home && !has_root) sends.push_back(message);
    if (!at_home && has_root) receives.push_back(message);
  }
  between_hosts([&] { between_->exchange(sends, receives, collective); });
}

}  // namespace lockstep::comm
