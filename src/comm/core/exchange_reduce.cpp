// SPDX-License-Identifier: Apache-2.0
#include "comm/core/exchange_reduce.h"

#include <algorithm>
#include <cstring>

#include "comm/core/gather.h"

namespace lockstep::comm {
namespace {

// Up to this size every rank sends everything to all and reduces everything: one exchange instead of two.
constexpr std::size_t kOnePassBytes = std::size_t{32} << 10;

Message part_of_row(const ExchangeReduce& job, const Contributor& to, std::size_t row) {
  const std::byte* start = job.rows + row * job.row_bytes + static_cast<std::size_t>(to.range.begin) * job.leaf_bytes;
  return {to.rank, const_cast<std::byte*>(start), static_cast<std::size_t>(to.range.size()) * job.leaf_bytes};
}

const Contributor& find(const ExchangeReduce& job, int rank) {
  return *std::find_if(job.contributors.begin(), job.contributors.end(), [&](const auto& c) { return c.rank == rank; });
}

/// Starts after this rank, so that not all ranks send to rank 0 first.
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

/// Everyone combines the same elements of as many rows.
bool all_are_alike(const ExchangeReduce& job) {
  const Contributor& first = job.contributors.front();
  return std::all_of(job.contributors.begin(), job.contributors.end(), [&](const Contributor& one) {
    return one.range.begin == first.range.begin && one.range.end == first.range.end &&
           one.rows.size() == first.rows.size();
  });
}

/// Every rank gets all rows, in messages whose number is the logarithm of the ranks'.
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

/// Each rank sends each other the elements that it combines.
std::vector<TreeLeaf> exchange_rows(Transport& transport, const ExchangeReduce& job, const Collective& collective,
                                    std::vector<std::byte>& scratch) {
  const int rank = transport.world().rank;
  const Contributor& me = find(job, rank);
  const std::size_t bytes = bytes_of(job, me.range);
  std::vector<Message> sends;
  for (const Contributor* other : others(job, rank)) {
    for (std::size_t row = 0; row < me.rows.size(); ++row) sends.push_back(part_of_row(job, *other, row));
  }
  std::size_t received = 0;
  for (const Contributor& contributor : job.contributors) received += contributor.rows.size() * bytes;
  if (scratch.size() < received) scratch.resize(received);
  std::vector<Message> receives;
  std::vector<TreeLeaf> leaves;
  for (const Contributor& from : job.contributors) {
    for (std::size_t row = 0; row < from.rows.size(); ++row) {
      std::byte* place = scratch.data() + bytes * leaves.size();
      if (from.rank == rank) {
        place = part_of_row(job, me, row).data;
      } else {
        receives.push_back({from.rank, place, bytes});
      }
      leaves.push_back({place, from.rows[row]});
    }
  }
  transport.exchange(sends, receives, collective);
  return leaves;
}

}  // namespace

void exchange_and_reduce(Transport& transport, const ExchangeReduce& job, const Collective& collective,
                         std::vector<std::byte>& scratch) {
  const Ring ring = ring_of(job, transport.world().rank);
  const ElementRange range = job.contributors[ring.place].range;
  const bool by_gathering = is_large(ring) && all_are_alike(job);
  const std::vector<TreeLeaf> leaves = by_gathering ? gather_rows(transport, job, ring, collective, scratch)
                                                    : exchange_rows(transport, job, collective, scratch);
  if (range.size() > 0) tree_reduce(job.reduction, leaves, {job.output}, range.size());
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
