// SPDX-License-Identifier: Apache-2.0
#include "comm/core/moves.h"

#include <algorithm>
#include <functional>

namespace lockstep::comm {
namespace {

/// Returns the number of elements that rank `from` has; in all_to_all, those for rank `to`.
std::int64_t brought(const MovePlan& plan, int from, int to) {
  const auto world = static_cast<std::size_t>(plan.world);
  const auto sender = static_cast<std::size_t>(from);
  switch (plan.call.kind) {
    case Kind::kAllGatherInto:
      return shard_of(plan.call.numel, plan.world, from).size();
    case Kind::kAllToAll:
      if (plan.counts == nullptr) return plan.call.numel / plan.world;
      return (*plan.counts)[sender * world + static_cast<std::size_t>(to)];
    default:
      return plan.counts == nullptr ? plan.call.numel : (*plan.counts)[sender];
  }
}

/// Returns true if the outbox has a part for every receiver.
bool has_parts(Kind kind) { return kind == Kind::kAllToAll || kind == Kind::kScatter; }

bool takes_part(const MovePlan& plan, int from, int to) {
  switch (plan.call.kind) {
    case Kind::kBroadcast:
    case Kind::kScatter:
      return from == plan.call.root;
    case Kind::kGather:
      return to == plan.call.root;
    default:
      return true;
  }
}

Move move_of(const MovePlan& plan, int from, int to) {
  std::int64_t before = 0;
  if (has_parts(plan.call.kind)) {
    for (int other = 0; other < to; ++other) before += brought(plan, from, other);
  }
  std::int64_t place = 0;
  if (plan.call.kind != Kind::kBroadcast && plan.call.kind != Kind::kScatter) {
    for (int other = 0; other < from; ++other) place += brought(plan, other, to);
  }
  const auto bytes = [&](std::int64_t elements) { return static_cast<std::size_t>(elements) * plan.item_bytes; };
  return {from, to, bytes(before), bytes(place), bytes(brought(plan, from, to))};
}

}  // namespace

std::optional<std::int64_t> equal_part(const Collective& collective, int world) {
  const std::int64_t numel = collective.call.numel;
  switch (collective.call.kind) {
    case Kind::kAllGatherInto:
    case Kind::kReduceScatter:
      if (numel % world != 0) return std::nullopt;
      return numel / world;
    case Kind::kAllGather: {
      if (collective.counts == nullptr) return numel;
      const std::vector<std::int64_t>& counts = *collective.counts;
      if (std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) != counts.end()) return std::nullopt;
      return counts.front();
    }
    default:
      return std::nullopt;
  }
}

std::size_t outbox_bytes(const MovePlan& plan, int rank) {
  std::int64_t elements = 0;
  if (has_parts(plan.call.kind)) {
    for (int to = 0; to < plan.world; ++to) elements += takes_part(plan, rank, to) ? brought(plan, rank, to) : 0;
  } else if (plan.call.kind != Kind::kBroadcast || rank == plan.call.root) {
    elements = brought(plan, rank, rank);
  }
  return static_cast<std::size_t>(elements) * plan.item_bytes;
}

std::vector<Move> moves_to(const MovePlan& plan, int rank) {
  std::vector<Move> moves;
  for (int from = 0; from < plan.world; ++from) {
    if (!takes_part(plan, from, rank)) continue;
    moves.push_back(move_of(plan, from, rank));
    if (moves.back().bytes == 0) moves.pop_back();
  }
  return moves;
}

std::vector<Move> moves_from(const MovePlan& plan, int rank) {
  std::vector<Move> moves;
  for (int to = 0; to < plan.world; ++to) {
    if (to == rank || !takes_part(plan, rank, to)) continue;
    moves.push_back(move_of(plan, rank, to));
    if (moves.back().bytes == 0) moves.pop_back();
  }
  return moves;
}

}  // namespace lockstep::comm
