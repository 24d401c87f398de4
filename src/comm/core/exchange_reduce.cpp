// SPDX-License-Identifier: Apache-2.0
#include "comm/core/exchange_reduce.h"

#include <algorithm>

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

}  // namespace

void exchange_and_reduce(Transport& transport, const ExchangeReduce& job, const Collective& collective,
                         std::vector<std::byte>& scratch) {
  const int rank = transport.world().rank;
  const Contributor& me = find(job, rank);
  const std::size_t bytes = static_cast<std::size_t>(me.range.size()) * job.leaf_bytes;
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
  if (me.range.size() > 0) tree_reduce(job.reduction, leaves, {job.output}, me.range.size());
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
