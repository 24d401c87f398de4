// SPDX-License-Identifier: Apache-2.0
#include "comm/shm/shm_backend.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

// Up to here every rank reduces everything: the one barrier saved is worth more than the work shared.
constexpr std::size_t kOnePassBytes = std::size_t{32} << 10;
constexpr std::int64_t kLine = 64;  // slices end on cache lines, so that no two ranks write one

}  // namespace

ShmBackend::ShmBackend(ShmConnection connection, World world)
    : segment_(connection.segment),
      world_(world),
      barrier_(segment_, std::move(world)),
      watch_(std::move(connection)) {}

Announcement& ShmBackend::announcement(int rank, const Collective& collective) {
  return segment_->slot(rank).announcements[collective.what.sequence & 1];
}

void ShmBackend::announce(const Collective& collective) {
  Announcement& mine = announcement(world_.rank, collective);
  mine.what = collective.what;
  const std::size_t bytes = collective.bytes * static_cast<std::size_t>(collective.rows);
  mine.offset = bytes == 0 ? kNowhere : segment_->offset_of(collective.data, bytes);
}

void ShmBackend::meet_and_compare(const Collective& collective) {
  barrier_.meet(collective);
  for (int rank = 0; rank < world_.size; ++rank) {
    const Descriptor& theirs = announcement(rank, collective).what;
    if (theirs != collective.what) barrier_.fail_mismatch(collective, rank, theirs);
  }
}

bool ShmBackend::all_in_place(const Collective& collective) {
  for (int rank = 0; rank < world_.size; ++rank) {
    if (announcement(rank, collective).offset == kNowhere) return false;
  }
  return true;
}

void ShmBackend::run(const Collective& collective) {
  announce(collective);
  switch (collective.what.kind) {
    case Kind::kAllReduce:
      all_reduce(collective);
      break;
    case Kind::kBroadcast:
      broadcast(collective);
      break;
    case Kind::kAllGather:
      all_gather(collective);
      break;
    case Kind::kBarrier:
      meet_and_compare(collective);
      break;
  }
  segment_->slot(world_.rank).finished.store(collective.what.sequence, std::memory_order_release);
}

void ShmBackend::all_reduce(const Collective& collective) {
  const std::vector<Piece> pieces = pieces_of(collective.what, world_.size);
  const std::size_t most = collective.bytes * static_cast<std::size_t>(most_rows(pieces));
  if (collective.bytes <= kOnePassBytes && most <= kStagingBytes) return reduce_in_one_pass(collective, pieces);
  meet_and_compare(collective);
  if (all_in_place(collective)) return reduce_in_place(collective, pieces);
  reduce_through_staging(collective, pieces);
}

Reduction ShmBackend::reduction(const Collective& collective) const {
  return {dtype_of(collective.what), op_of(collective.what), divisor_of(collective.what, world_.size)};
}

void ShmBackend::reduce_in_one_pass(const Collective& collective, const std::vector<Piece>& pieces) {
  const std::uint64_t parity = staging_uses_++;
  if (collective.bytes > 0) {
    std::memcpy(segment_->staging(world_.rank, parity), collective.data,
                collective.bytes * static_cast<std::size_t>(collective.rows));
  }
  meet_and_compare(collective);
  std::vector<TreeLeaf> leaves;
  leaves.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    const std::size_t row = static_cast<std::size_t>(piece.row) * collective.bytes;
    leaves.push_back({segment_->staging(piece.rank, parity) + row, piece.span});
  }
  tree_reduce(reduction(collective), leaves, {collective.data}, collective.what.numel);
}

ShmBackend::Range ShmBackend::slice(std::int64_t numel, std::size_t item_bytes, int rank) const {
  const std::int64_t line = std::max<std::int64_t>(kLine / static_cast<std::int64_t>(item_bytes), 1);
  const std::int64_t lines = (numel + line - 1) / line;
  const std::int64_t share = (lines + world_.size - 1) / world_.size * line;
  return {std::min(numel, share * rank), std::min(numel, share * (rank + 1))};
}

void ShmBackend::reduce_in_place(const Collective& collective, const std::vector<Piece>& pieces) {
  const Range mine = slice(collective.what.numel, collective.item_bytes, world_.rank);
  const std::size_t at = static_cast<std::size_t>(mine.begin) * collective.item_bytes;
  std::vector<TreeLeaf> leaves;
  std::vector<std::byte*> destinations;
  for (const Piece& piece : pieces) {
    std::byte* data = segment_->region(piece.rank) + announcement(piece.rank, collective).offset + at;
    if (piece.row == 0) destinations.push_back(data);
    leaves.push_back({data + static_cast<std::size_t>(piece.row) * collective.bytes, piece.span});
  }
  tree_reduce(reduction(collective), leaves, destinations, mine.end - mine.begin);
  barrier_.meet(collective);
}

void ShmBackend::reduce_through_staging(const Collective& collective, const std::vector<Piece>& pieces) {
  const auto item = collective.item_bytes;
  const auto rows = static_cast<std::size_t>(most_rows(pieces));
  const auto chunk = static_cast<std::int64_t>(kStagingBytes / item / rows);
  for (std::int64_t begin = 0; begin < collective.what.numel; begin += chunk) {
    const std::int64_t count = std::min(chunk, collective.what.numel - begin);
    const std::size_t bytes = static_cast<std::size_t>(count) * item;
    const std::uint64_t parity = staging_uses_++;
    std::byte* data = collective.data + static_cast<std::size_t>(begin) * item;
    for (std::size_t row = 0; row < static_cast<std::size_t>(collective.rows); ++row) {
      std::memcpy(segment_->staging(world_.rank, parity) + row * bytes, data + row * collective.bytes, bytes);
    }
    barrier_.meet(collective);
    const Range mine = slice(count, item, world_.rank);
    const auto at = static_cast<std::size_t>(mine.begin) * item;
    std::vector<TreeLeaf> leaves;
    for (const Piece& piece : pieces) {
      const std::size_t row = static_cast<std::size_t>(piece.row) * bytes;
      leaves.push_back({segment_->staging(piece.rank, parity) + row + at, piece.span});
    }
    tree_reduce(reduction(collective), leaves, {segment_->staging(world_.rank, parity) + at, data + at},
                mine.end - mine.begin);
    barrier_.meet(collective);
    for (int rank = 0; rank < world_.size; ++rank) {
      if (rank == world_.rank) continue;
      const Range theirs = slice(count, item, rank);
      const auto from = static_cast<std::size_t>(theirs.begin) * item;
      std::memcpy(data + from, segment_->staging(rank, parity) + from,
                  static_cast<std::size_t>(theirs.end - theirs.begin) * item);
    }
  }
}

void ShmBackend::broadcast(const Collective& collective) {
  meet_and_compare(collective);
  const int root = collective.what.root;
  for (std::size_t begin = 0; begin < collective.bytes; begin += kStagingBytes) {
    const std::size_t count = std::min(kStagingBytes, collective.bytes - begin);
    std::byte* staging = segment_->staging(root, staging_uses_++);
    if (root == world_.rank) std::memcpy(staging, collective.data + begin, count);
    barrier_.meet(collective);
    if (root != world_.rank) std::memcpy(collective.data + begin, staging, count);
  }
}

void ShmBackend::all_gather(const Collective& collective) {
  meet_and_compare(collective);
  for (std::size_t begin = 0; begin < collective.bytes; begin += kStagingBytes) {
    const std::size_t count = std::min(kStagingBytes, collective.bytes - begin);
    const std::uint64_t parity = staging_uses_++;
    std::memcpy(segment_->staging(world_.rank, parity), collective.data + begin, count);
    barrier_.meet(collective);
    for (int rank = 0; rank < world_.size; ++rank) {
      std::memcpy(collective.outputs[static_cast<std::size_t>(rank)] + begin, segment_->staging(rank, parity), count);
    }
  }
}

at::Tensor ShmBackend::allocate_bucket(std::int64_t numel, c10::ScalarType dtype) {
  if (numel == 0) return at::zeros({0}, dtype);
  const std::size_t item = c10::elementSize(dtype);
  if (static_cast<std::uint64_t>(numel) > (std::uint64_t{1} << 50)) {
    throw ResourceError(fmt::format("a bucket of {} elements is more than any machine has", numel));
  }
  const std::size_t bytes = static_cast<std::size_t>(numel) * item;
  std::byte* start = segment_->allocate(bytes);
  return at::from_blob(
      start, {numel}, [segment = segment_, start, bytes](void*) { segment->release(start, bytes); }, dtype);
}

void ShmBackend::abort(const std::string& reason) noexcept {
  segment_->fail(FailureKind::kFailed, world_.rank, reason);
}

void ShmBackend::leave() noexcept {
  segment_->slot(world_.rank).left.store(1, std::memory_order_release);
  segment_->wake_all();
}

}  // namespace lockstep::comm
