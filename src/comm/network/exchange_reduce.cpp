// SPDX-License-Identifier: Apache-2.0
#include "comm/network/exchange_reduce.h"

#include <algorithm>
#include <cstring>

#include "comm/network/gather.h"

namespace lockstep::comm {
namespace {

// Up to this size every rank sends all data to every other rank and reduces everything: one exchange instead of two.
constexpr std::size_t kOnePassBytes = std::size_t{32} << 10;

Message part_of_row(const ExchangeReduce& job, const Contributor& to, std::size_t row) {
  const std::byte* start = job.rows + row * job.row_bytes + static_cast<std::size_t>(to.range.begin) * job.leaf_bytes;
  return {to.rank, const_cast<std::byte*>(start), static_cast<std::size_t>(to.range.size()) * job.leaf_bytes};
}

const Contributor& find(const ExchangeReduce& job, int rank) {
  return *std::find_if(job.contributors.begin(), job.contributors.end(), [&](const auto& c) { return c.rank == rank; });
}

/// Returns the other contributors, starting after this rank, so that not all ranks send to rank 0 first.
std::vector<const Contributor*> others(const ExchangeReduce& job, int rank) {
  std::vector<const Contributor*> result;
  for (const Contributor& contributor : job.contributors) {
    if (contributor.rank > rank) result.push_back(&contributor);
  }
  for (const Contributor& contributor : job.contributors) {
    if (contributor.rank < rank) result.push_back(&contributor);
  }
  return result;
}

std::size_t bytes_of(const ExchangeReduce& job, ElementRange range) {
  return static_cast<std::size_t>(range.size()) * job.leaf_bytes;
}

Ring ring_of(const ExchangeReduce& job, int rank) {
  Ring ring;
  for (const Contributor& contributor : job.contributors) {
    if (contributor.rank == rank) ring.place = ring.ranks.size();
    ring.ranks.push_back(contributor.rank);
  }
  return ring;
}

/// Returns true if all contributors combine the same elements and have the same number of rows.
bool all_are_alike(const ExchangeReduce& job) {
  const Contributor& first = job.contributors.front();
  return std::all_of(job.contributors.begin(), job.contributors.end(), [&](const Contributor& one) {
    return one.range.begin == first.range.begin && one.range.end == first.range.end &&
           one.rows.size() == first.rows.size();
  });
}

/// Gathers all rows on every rank, in a logarithmic number of messages.
std::vector<TreeLeaf> gather_rows(Transport& transport, const ExchangeReduce& job, const Ring& ring,
                                  const Collective& collective, std::vector<std::byte>& scratch) {
  const Contributor& me = job.contributors[ring.place];
  const std::size_t row_bytes = bytes_of(job, me.range);
  const std::size_t bytes = row_bytes * me.rows.size();
  scratch.resize(std::max(scratch.size(), bytes * ring.ranks.size()));
  for (std::size_t row = 0; row < me.rows.size(); ++row) {
    std::memcpy(scratch.data() + row * row_bytes, part_of_row(job, me, row).data, row_bytes);
  }
  gather_around(transport, ring, scratch.data(), bytes, collective);
  std::vector<TreeLeaf> leaves;
  for (std::size_t i = 0; i < job.contributors.size(); ++i) {
    for (std::size_t row = 0; row < me.rows.size(); ++row) {
      leaves.push_back({scratch.data() + ring.entry_of(i) * bytes + row * row_bytes, job.contributors[i].rows[row]});
    }
  }
  return leaves;
}

/// The messages that give a rank the rows for its range.
struct RowExchange {
  std::vector<Message> sends;
  std::vector<Message> receives;
  std::vector<TreeLeaf> leaves;
};

/// Plans the exchange in which each rank sends to every other rank the elements that the latter combines.
RowExchange plan_rows(const ExchangeReduce& job, int rank, std::vector<std::byte>& scratch) {
  const Contributor& me = find(job, rank);
  const std::size_t bytes = bytes_of(job, me.range);
  RowExchange plan;
  for (const Contributor* other : others(job, rank)) {
    for (std::size_t row = 0; row < me.rows.size(); ++row) plan.sends.push_back(part_of_row(job, *other, row));
  }
  std::size_t received = 0;
  for (const Contributor& contributor : job.contributors) received += contributor.rows.size() * bytes;
  if (scratch.size() < received) scratch.resize(received);
  for (const Contributor& from : job.contributors) {
    for (std::size_t row = 0; row < from.rows.size(); ++row) {
      std::byte* place = scratch.data() + bytes * plan.leaves.size();
      if (from.rank == rank) {
        place = part_of_row(job, me, row).data;
      } else {
        plan.receives.push_back({from.rank, place, bytes});
      }
      plan.leaves.push_back({place, from.rows[row]});
    }
  }
  return plan;
}

/// Combines the elements of a range that have arrived from all contributors, before the rest has arrived.
class PartialReduction {
 public:
  PartialReduction(const ExchangeReduce& job, std::vector<TreeLeaf> leaves, std::int64_t count)
      : job_(job), leaves_(std::move(leaves)), count_(count) {}

  void arrived(std::size_t bytes) {
    const auto have = static_cast<std::int64_t>(bytes / job_.leaf_bytes);
    while (count_ - done_ > 0 && have - done_ >= std::min(kElementsAtOnce, count_ - done_)) {
      combine(std::min(kElementsAtOnce, count_ - done_));
    }
  }

 private:
  // A core's caches hold this many elements of each row.
  static constexpr std::int64_t kElementsAtOnce = std::int64_t{32} << 10;

  void combine(std::int64_t count) {
    std::vector<TreeLeaf> leaves = leaves_;
    for (TreeLeaf& leaf : leaves) leaf.data += static_cast<std::size_t>(done_) * job_.leaf_bytes;
    tree_reduce(job_.reduction, leaves, {job_.output + static_cast<std::size_t>(done_) * job_.result_bytes}, count);
    done_ += count;
  }

  const ExchangeReduce& job_;
  const std::vector<TreeLeaf> leaves_;
  const std::int64_t count_;
  std::int64_t done_ = 0;
};

}  // namespace

std::vector<TreeLeaf> exchange_rows(Transport& transport, const ExchangeReduce& job, const Collective& collective,
                                    std::vector<std::byte>& scratch, const Preamble& preamble) {
  RowExchange plan = plan_rows(job, transport.world().rank, scratch);
  plan.sends.insert(plan.sends.begin(), preamble.sends.begin(), preamble.sends.end());
  plan.receives.insert(plan.receives.begin(), preamble.receives.begin(), preamble.receives.end());
  transport.exchange(plan.sends, plan.receives, collective);
  return plan.leaves;
}

void exchange_and_reduce(Transport& transport, const ExchangeReduce& job, const Collective& collective,
                         std::vector<std::byte>& scratch) {
  const Ring ring = ring_of(job, transport.world().rank);
  const ElementRange range = job.contributors[ring.place].range;
  if (is_large(ring) && all_are_alike(job)) {
    const std::vector<TreeLeaf> leaves = gather_rows(transport, job, ring, collective, scratch);
    if (range.size() > 0) tree_reduce(job.reduction, leaves, {job.output}, range.size());
    return;
  }
  RowExchange plan = plan_rows(job, transport.world().rank, scratch);
  PartialReduction reduction(job, std::move(plan.leaves), range.size());
  // If all combine everything, the result may replace a row that is still to be sent to some of them.
  const auto combine = [&](std::size_t bytes) { reduction.arrived(bytes); };
  transport.exchange_in_parts(plan.sends, plan.receives, collective,
                              is_one_pass(job.row_bytes) ? Transport::Arrived() : Transport::Arrived(combine));
  reduction.arrived(bytes_of(job, range));
}

void share_ranges(Transport& transport, const ExchangeReduce& job, const Collective& collective, std::byte* base) {
  const int rank = transport.world().rank;
  const auto message = [&](int to, ElementRange range) {
    return Message{to, base + static_cast<std::size_t>(range.begin) * job.result_bytes,
                   static_cast<std::size_t>(range.size()) * job.result_bytes};
  };
  std::vector<Message> sends;
  std::vector<Message> receives;
  for (const Contributor* other : others(job, rank)) {
    sends.push_back(message(other->rank, find(job, rank).range));
    receives.push_back(message(other->rank, other->range));
  }
  transport.exchange(sends, receives, collective);
}

bool is_one_pass(std::size_t bytes) { return bytes <= kOnePassBytes; }

std::vector<ElementRange> ranges_for_all(std::int64_t numel, std::size_t bytes, int count) {
  std::vector<ElementRange> ranges;
  for (int i = 0; i < count; ++i) {
    ranges.push_back(is_one_pass(bytes) ? ElementRange{0, numel} : shard_of(numel, count, i));
  }
  return ranges;
}

}  // namespace lockstep::comm
