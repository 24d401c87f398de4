// SPDX-License-Identifier: Apache-2.0
#include "comm/network/flat_backend.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "comm/core/moves.h"
#include "comm/network/gather.h"

namespace lockstep::comm {

void compare_over(Transport& transport, const Collective& collective, const std::vector<int>& ranks) {
  const World& world = transport.world();
  const auto place = std::find(ranks.begin(), ranks.end(), world.rank) - ranks.begin();
  const Ring ring{ranks, static_cast<std::size_t>(place)};
  std::vector<Descriptor> calls(ranks.size());
  calls[0] = collective.call;
  gather_around(transport, ring, reinterpret_cast<std::byte*>(calls.data()), sizeof(Descriptor), collective);
  for (std::size_t other = 0; other < ranks.size(); ++other) {
    const Descriptor& other_call = calls[ring.entry_of(other)];
    if (other_call != calls[0]) throw mismatch_error(world, calls[0], ranks[other], other_call);
  }
}

FlatBackend::FlatBackend(std::shared_ptr<Network> network)
    : network_(std::move(network)),
      transport_(network_->connect("ranks")),
      all_(static_cast<std::size_t>(network_->world().size)) {
  std::iota(all_.begin(), all_.end(), 0);
}

std::unique_ptr<Runner> FlatBackend::open_channel(int peer, bool sending) {
  return make_network_channel(network_, peer, sending);
}

at::Tensor FlatBackend::allocate_bucket(std::int64_t numel, c10::ScalarType dtype) { return at::zeros({numel}, dtype); }

void FlatBackend::abort(const std::string& /*reason*/) noexcept { network_->abort(); }

void FlatBackend::meet(const Collective& collective) { compare_over(*transport_, collective, all_); }

ExchangeReduce FlatBackend::plan_reduction(const Collective& collective) const {
  const World& world = transport_->world();
  const Descriptor& call = collective.call;
  ExchangeReduce job;
  job.reduction = {dtype_of(call), op_of(call), divisor_of(call, world.size)};
  job.leaf_bytes = collective.item_bytes;
  job.result_bytes = collective.item_bytes;
  job.rows = collective.data;
  job.row_bytes = collective.bytes;
  const auto shared = ranges_for_all(call.numel, collective.bytes, world.size);
  for (const Piece& piece : pieces_of(call, world.size)) {
    if (piece.row == 0) {
      const ElementRange range = call.kind == Kind::kAllReduce ? shared[static_cast<std::size_t>(piece.rank)]
                                                               : result_range(call, world.size, piece.rank);
      job.contributors.push_back({piece.rank, range, {}});
    }
    job.contributors.back().rows.push_back(piece.span);
  }
  job.output = collective.output;
  if (call.kind == Kind::kAllReduce) {
    job.output += static_cast<std::size_t>(shared[static_cast<std::size_t>(world.rank)].begin) * job.result_bytes;
  }
  return job;
}

/// For few ranks with little to combine: the exchange that compares the calls also carries the rows, which saves
/// another exchange.
void FlatBackend::reduce_at_once(const Collective& collective) {
  const int rank = transport_->world().rank;
  Descriptor own_call = collective.call;
  std::vector<Descriptor> other_calls(all_.size(), own_call);
  Preamble words;
  for (const int other : all_) {
    if (other == rank) continue;
    words.sends.push_back({other, reinterpret_cast<std::byte*>(&own_call), sizeof own_call});
    words.receives.push_back(
        {other, reinterpret_cast<std::byte*>(&other_calls[static_cast<std::size_t>(other)]), sizeof own_call});
  }
  const auto compare = [&] {
    for (const int other : all_) {
      const Descriptor& call = other_calls[static_cast<std::size_t>(other)];
      if (call != own_call) throw mismatch_error(transport_->world(), own_call, other, call);
    }
  };
  const ExchangeReduce job = plan_reduction(collective);
  try {
    const std::vector<TreeLeaf> leaves = exchange_rows(*transport_, job, collective, scratch_, words);
    compare();
    tree_reduce(job.reduction, leaves, {job.output}, collective.call.numel);
  } catch (const WrongLength&) {
    compare();
    throw;
  } catch (const PeerError&) {  // a rank with a larger call finds the difference first, and leaves
    compare();
    throw;
  }
}

void FlatBackend::reduce(const Collective& collective) {
  const bool is_small =
      collective.bytes > 0 && is_one_pass(collective.bytes) && collective.call.kind == Kind::kAllReduce;
  if (is_small && !is_large({all_, 0}) && transport_->reports_wrong_lengths()) return reduce_at_once(collective);
  meet(collective);
  if (collective.bytes == 0) return;
  const bool for_all = collective.call.kind == Kind::kAllReduce;
  const ExchangeReduce job = plan_reduction(collective);
  exchange_and_reduce(*transport_, job, collective, scratch_);
  if (for_all && !is_one_pass(collective.bytes)) share_ranges(*transport_, job, collective, collective.output);
}

void FlatBackend::move(const Collective& collective) {
  meet(collective);
  move_compared(collective);
}

// The root sends to each rank directly: a tree would save time only in very large worlds.
void FlatBackend::move_compared(const Collective& collective) {
  const World& world = transport_->world();
  const MovePlan plan = plan_of(collective, world.size);
  std::vector<Message> sends;
  for (const Move& part : moves_from(plan, world.rank)) {
    sends.push_back({part.to, const_cast<std::byte*>(collective.data) + part.offset, part.bytes});
  }
  std::vector<Message> receives;
  for (const Move& part : moves_to(plan, world.rank)) {
    if (part.from != world.rank) {
      receives.push_back({part.from, collective.output + part.place, part.bytes});
    } else if (collective.output + part.place != collective.data + part.offset) {
      std::memcpy(collective.output + part.place, collective.data + part.offset, part.bytes);
    }
  }
  transport_->exchange(sends, receives, collective);
}

}  // namespace lockstep::comm
