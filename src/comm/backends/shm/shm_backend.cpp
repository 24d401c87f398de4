// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/shm/shm_backend.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "comm/backends/shm/channel.h"
#include "comm/core/moves.h"
#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

// Up to this size every rank reduces everything: this saves a barrier, which costs more than the additional work.
constexpr std::size_t kOnePassShmBytes = std::size_t{32} << 10;
constexpr std::int64_t kLine = 64;  // slices end on cache lines, so that no two ranks write the same line

std::size_t bytes_of(std::int64_t elements, std::size_t item_bytes) {
  return static_cast<std::size_t>(elements) * item_bytes;
}

ElementRange common_part(ElementRange a, ElementRange b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

/// Returns the reduction that combines the ranks' pieces.
Reduction reduction_of(const Collective& collective, int world) {
  return {dtype_of(collective.call), op_of(collective.call), divisor_of(collective.call, world)};
}

}  // namespace

ElementRange slice_of(const Slicing& slicing, int rank) {
  const std::int64_t line = std::max<std::int64_t>(kLine / static_cast<std::int64_t>(slicing.item_bytes), 1);
  const std::int64_t lines = (slicing.numel + line - 1) / line;
  const std::int64_t share = (lines + slicing.world - 1) / slicing.world * line;
  return {std::min(slicing.numel, share * rank), std::min(slicing.numel, share * (rank + 1))};
}

ShmBackend::ShmBackend(ShmConnection connection, const World& world)
    : segment_(connection.segment),
      world_(world),
      barrier_(segment_, world),
      plain_pieces_(pieces_of(Descriptor{}, world.size)),
      watch_(std::move(connection)) {}

std::unique_ptr<Runner> ShmBackend::open_channel(int peer, bool sending) {
  return std::make_unique<ShmChannel>(segment_, world_, peer, sending);
}

Announcement& ShmBackend::announcement(int rank, const Collective& collective) {
  return segment_->slot(rank).announcements[collective.call.sequence & 1];
}

/// Announces the call. `bytes` is the size of all of this rank's data.
void ShmBackend::announce(const Collective& collective, std::size_t bytes) {
  Announcement& own = announcement(world_.rank, collective);
  own.call = collective.call;
  own.offset = bytes == 0 ? kNothing : segment_->offset_of(collective.data, bytes);
}

void ShmBackend::meet(const Collective& collective) {
  if (collective.call.kind == Kind::kBarrier || collective.on_device) announce(collective, 0);
  barrier_.meet(collective);
  for (int rank = 0; rank < world_.size; ++rank) {
    const Descriptor& other_call = announcement(rank, collective).call;
    if (other_call != collective.call) barrier_.health().fail_mismatch(collective, rank, other_call);
  }
}

void ShmBackend::note_finished(std::uint64_t sequence) noexcept {
  segment_->slot(world_.rank).finished.store(sequence, std::memory_order_release);
}

bool ShmBackend::all_in_place(const Collective& collective) {
  for (int rank = 0; rank < world_.size; ++rank) {
    if (announcement(rank, collective).offset == kNowhere) return false;
  }
  return true;
}

void ShmBackend::reduce(const Collective& collective) {
  announce(collective, collective.bytes * static_cast<std::size_t>(collective.rows));
  const bool plain = collective.call.replicas == 0;
  const std::vector<Piece> computed = plain ? std::vector<Piece>() : pieces_of(collective.call, world_.size);
  const std::vector<Piece>& pieces = plain ? plain_pieces_ : computed;
  const std::size_t most = collective.bytes * static_cast<std::size_t>(most_rows(pieces));
  if (collective.bytes <= kOnePassShmBytes && most <= kStagingBytes) return reduce_in_one_pass(collective, pieces);
  meet(collective);
  if (all_in_place(collective)) return reduce_in_place(collective, pieces);
  reduce_through_staging(collective, pieces);
}

void ShmBackend::copy_rows(const Collective& collective, ElementRange chunk, std::byte* staging) const {
  const std::size_t bytes = bytes_of(chunk.size(), collective.item_bytes);
  if (bytes == 0) return;
  const std::byte* data = collective.data + bytes_of(chunk.begin, collective.item_bytes);
  for (std::size_t row = 0; row < static_cast<std::size_t>(collective.rows); ++row) {
    std::memcpy(staging + row * bytes, data + row * collective.bytes, bytes);
  }
}

std::vector<TreeLeaf> ShmBackend::staged_leaves(const std::vector<Piece>& pieces, std::uint64_t parity,
                                                std::size_t row_bytes, std::size_t at) {
  std::vector<TreeLeaf> leaves;
  leaves.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    const std::size_t row = static_cast<std::size_t>(piece.row) * row_bytes;
    leaves.push_back({segment_->staging(piece.rank, parity) + row + at, piece.span});
  }
  return leaves;
}

void ShmBackend::reduce_in_one_pass(const Collective& collective, const std::vector<Piece>& pieces) {
  const std::uint64_t parity = staging_uses_++;
  copy_rows(collective, {0, collective.call.numel}, segment_->staging(world_.rank, parity));
  meet(collective);
  const ElementRange own_range = result_range(collective.call, world_.size, world_.rank);
  if (own_range.size() == 0) return;
  const std::size_t at = bytes_of(own_range.begin, collective.item_bytes);
  tree_reduce(reduction_of(collective, world_.size), staged_leaves(pieces, parity, collective.bytes, at),
              {collective.output}, own_range.size());
}

std::vector<TreeLeaf> ShmBackend::leaves_of_chunk(const Collective& collective, const std::vector<Piece>& pieces,
                                                  ElementRange chunk) {
  if (!all_in_place(collective)) {
    const std::uint64_t parity = staging_uses_++;
    copy_rows(collective, chunk, segment_->staging(world_.rank, parity));
    barrier_.meet(collective);
    return staged_leaves(pieces, parity, bytes_of(chunk.size(), collective.item_bytes), 0);
  }
  std::vector<TreeLeaf> leaves;
  for (const Piece& piece : pieces) {
    const std::byte* data = segment_->region(piece.rank) + announcement(piece.rank, collective).offset +
                            bytes_of(chunk.begin, collective.item_bytes);
    leaves.push_back({data + static_cast<std::size_t>(piece.row) * collective.bytes, piece.span});
  }
  return leaves;
}

void ShmBackend::reduce_in_place(const Collective& collective, const std::vector<Piece>& pieces) {
  const bool for_all = collective.call.kind == Kind::kAllReduce;
  const ElementRange own_range =
      for_all ? slice_of({collective.call.numel, collective.item_bytes, world_.size}, world_.rank)
              : result_range(collective.call, world_.size, world_.rank);
  const std::size_t at = bytes_of(own_range.begin, collective.item_bytes);
  std::vector<TreeLeaf> leaves;
  std::vector<std::byte*> destinations;
  for (const Piece& piece : pieces) {
    std::byte* data = segment_->region(piece.rank) + announcement(piece.rank, collective).offset + at;
    if (for_all && piece.row == 0) destinations.push_back(data);
    leaves.push_back({data + static_cast<std::size_t>(piece.row) * collective.bytes, piece.span});
  }
  if (!for_all) destinations.push_back(collective.output);
  if (own_range.size() > 0) tree_reduce(reduction_of(collective, world_.size), leaves, destinations, own_range.size());
  barrier_.meet(collective);
}

void ShmBackend::reduce_through_staging(const Collective& collective, const std::vector<Piece>& pieces) {
  const auto item = collective.item_bytes;
  const bool for_all = collective.call.kind == Kind::kAllReduce;
  const auto chunk_size = static_cast<std::int64_t>(kStagingBytes / item / static_cast<std::size_t>(most_rows(pieces)));
  const ElementRange result = result_range(collective.call, world_.size, world_.rank);
  for (std::int64_t begin = 0; begin < collective.call.numel; begin += chunk_size) {
    const ElementRange chunk{begin, std::min(begin + chunk_size, collective.call.numel)};
    const std::uint64_t parity = staging_uses_++;
    std::byte* staging = segment_->staging(world_.rank, parity);
    copy_rows(collective, chunk, staging);
    barrier_.meet(collective);
    ElementRange own_range = common_part(chunk, result);
    if (for_all) {
      const ElementRange part = slice_of({chunk.size(), item, world_.size}, world_.rank);
      own_range = {begin + part.begin, begin + part.end};
    }
    const std::size_t at = bytes_of(own_range.begin - begin, item);
    std::vector<std::byte*> destinations = {collective.output + bytes_of(own_range.begin - result.begin, item)};
    if (for_all) destinations.push_back(staging + at);
    if (own_range.size() > 0) {
      tree_reduce(reduction_of(collective, world_.size),
                  staged_leaves(pieces, parity, bytes_of(chunk.size(), item), at), destinations, own_range.size());
    }
    if (for_all) share_slices(collective, chunk, parity);
  }
}

/// Copies the other ranks' slices of a chunk, once all are combined.
void ShmBackend::share_slices(const Collective& collective, ElementRange chunk, std::uint64_t parity) {
  barrier_.meet(collective);
  std::byte* output = collective.output + bytes_of(chunk.begin, collective.item_bytes);
  for (int rank = 0; rank < world_.size; ++rank) {
    if (rank == world_.rank) continue;
    const ElementRange slice = slice_of({chunk.size(), collective.item_bytes, world_.size}, rank);
    const std::size_t from = bytes_of(slice.begin, collective.item_bytes);
    std::memcpy(output + from, segment_->staging(rank, parity) + from, bytes_of(slice.size(), collective.item_bytes));
  }
}

void ShmBackend::move(const Collective& collective) {
  announce(collective, outbox_bytes(plan_of(collective, world_.size), world_.rank));
  meet(collective);
  if (all_in_place(collective)) return move_in_place(collective);
  move_through_staging(collective);
}

void ShmBackend::move_in_place(const Collective& collective) {
  for (const Move& part : moves_to(plan_of(collective, world_.size), world_.rank)) {
    const std::byte* source = part.from == world_.rank
                                  ? collective.data
                                  : segment_->region(part.from) + announcement(part.from, collective).offset;
    if (source + part.offset == collective.output + part.place) continue;
    std::memcpy(collective.output + part.place, source + part.offset, part.bytes);
  }
  barrier_.meet(collective);
}

void ShmBackend::move_through_staging(const Collective& collective) {
  const MovePlan plan = plan_of(collective, world_.size);
  const std::vector<Move> parts = moves_to(plan, world_.rank);
  const std::size_t outbox = outbox_bytes(plan, world_.rank);
  std::size_t longest = 0;
  for (int rank = 0; rank < world_.size; ++rank) longest = std::max(longest, outbox_bytes(plan, rank));
  for (std::size_t begin = 0; begin < longest; begin += kStagingBytes) {
    const std::uint64_t parity = staging_uses_++;
    if (begin < outbox) {
      std::memcpy(segment_->staging(world_.rank, parity), collective.data + begin,
                  std::min(kStagingBytes, outbox - begin));
    }
    barrier_.meet(collective);
    for (const Move& part : parts) {
      const std::size_t first = std::max(begin, part.offset);
      const std::size_t last = std::min(begin + kStagingBytes, part.offset + part.bytes);
      const bool is_there = collective.data + first == collective.output + part.place + (first - part.offset);
      if (first >= last || (part.from == world_.rank && is_there)) continue;
      std::memcpy(collective.output + part.place + (first - part.offset),
                  segment_->staging(part.from, parity) + (first - begin), last - first);
    }
  }
}

at::Tensor ShmBackend::allocate_bucket(std::int64_t numel, c10::ScalarType dtype) {
  if (numel == 0) return at::zeros({0}, dtype);
  const std::size_t item = c10::elementSize(dtype);
  if (static_cast<std::uint64_t>(numel) > (std::uint64_t{1} << 50)) {
    throw ResourceError(fmt::format("a bucket of {} elements does not fit into the memory of any machine", numel));
  }
  const std::size_t bytes = static_cast<std::size_t>(numel) * item;
  std::byte* start = segment_->allocate(bytes);
  return at::from_blob(
      start, {numel}, [segment = segment_, start, bytes](void*) { segment->release(start, bytes); }, dtype);
}

void ShmBackend::check(const Collective& under_way) { barrier_.health().check(under_way); }

void ShmBackend::abort(const std::string& reason) noexcept {
  segment_->fail(FailureKind::kFailed, world_.rank, reason);
}

void ShmBackend::leave() noexcept {
  segment_->slot(world_.rank).left.store(1, std::memory_order_release);
  segment_->wake_all();
}

}  // namespace lockstep::comm
