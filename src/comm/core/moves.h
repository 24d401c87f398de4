// SPDX-License-Identifier: Apache-2.0
// The bytes that each rank needs from every other rank in a collective that only moves data. All functions are pure.
// Each rank has an outbox, one block of bytes; a rank's result consists of parts of the outboxes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "comm/core/collective.h"

namespace lockstep::comm {

/// A copy of `bytes` bytes from `offset` in one rank's outbox to `place` in another rank's output.
struct Move {
  int from = 0;
  int to = 0;
  std::size_t offset = 0;
  std::size_t place = 0;
  std::size_t bytes = 0;
};

/// The values of a collective that moves data, the same on every rank.
struct MovePlan {
  const Descriptor& call;
  const Counts& counts;
  std::size_t item_bytes = 1;
  int world = 1;
};

[[nodiscard]] inline MovePlan plan_of(const Collective& collective, int world) {
  return {collective.call, collective.counts, collective.item_bytes, world};
}

/// Returns the number of elements in each rank's part of an all_gather, all_gather_into or reduce_scatter if all parts
/// are equal; none if they differ, and for other collectives. Some transports carry only equal parts.
[[nodiscard]] std::optional<std::int64_t> equal_part(const Collective& collective, int world);

/// Returns the size of the outbox of `rank` in bytes.
[[nodiscard]] std::size_t outbox_bytes(const MovePlan& plan, int rank);

/// Returns all moves into the output of `rank`, including its own part. Empty moves are skipped.
[[nodiscard]] std::vector<Move> moves_to(const MovePlan& plan, int rank);

/// Returns all moves that other ranks need from `rank`.
[[nodiscard]] std::vector<Move> moves_from(const MovePlan& plan, int rank);

}  // namespace lockstep::comm
