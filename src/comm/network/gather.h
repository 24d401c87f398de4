// SPDX-License-Identifier: Apache-2.0
// Shares a value of each rank with all ranks, in few messages.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/network/transport.h"

namespace lockstep::comm {

/// A round in which a rank sends its first `count` entries to rank `to`, and gets as many from rank `from`, which go
/// behind its own.
struct GatherRound {
  int to = 0;
  int from = 0;
  int count = 0;
  int known = 0;  ///< entries before the round: of this rank and of the ranks after it, around the ring

  bool operator==(const GatherRound&) const = default;
};

/// The rounds of rank `rank` of `size` ranks, after which it has the entries of rank, rank + 1, ... around the ring.
/// Their number is log2(size), rounded up: J. Bruck and others, "Efficient Algorithms for All-to-All Communications in
/// Multiport Message-Passing Systems", 1997.
[[nodiscard]] std::vector<GatherRound> gather_rounds(int rank, int size);

/// Ranks that share their values, and the place of this rank among them.
struct Ring {
  std::vector<int> ranks;
  std::size_t place = 0;

  /// Returns the rank of the entry `i` places behind this rank's.
  [[nodiscard]] int rank_at(std::size_t i) const { return ranks[(place + i) % ranks.size()]; }
  /// Returns the place among the entries of the rank at a place of `ranks`.
  [[nodiscard]] std::size_t entry_of(std::size_t other) const { return (other + ranks.size() - place) % ranks.size(); }
};

/// True if a few consecutive messages take less time than one to each rank at once.
[[nodiscard]] bool is_large(const Ring& ring);

/// Fills `entries`, `bytes` for each rank: this rank's is there, those of the ranks after it around the ring follow.
/// Blocks: yes. Throws: as Transport::exchange.
void gather_around(Transport& transport, const Ring& ring, std::byte* entries, std::size_t bytes,
                   const Collective& collective);

}  // namespace lockstep::comm
