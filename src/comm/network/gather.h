// SPDX-License-Identifier: Apache-2.0
// Gathers a value from each rank on all ranks, in few messages.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/network/transport.h"

namespace lockstep::comm {

/// A round in which a rank sends its first `count` entries to rank `to`, and appends as many entries from rank `from`
/// to its own.
struct GatherRound {
  int to = 0;
  int from = 0;
  int count = 0;
  int known = 0;  ///< number of entries before the round: this rank's and those of the ranks after it around the ring

  bool operator==(const GatherRound&) const = default;
};

/// Returns the rounds of rank `rank` of `size` ranks, after which it has the entries of rank, rank + 1, ... around the
/// ring. There are log2(size) rounds, rounded up: J. Bruck et al., "Efficient Algorithms for All-to-All Communications
/// in Multiport Message-Passing Systems", 1997.
[[nodiscard]] std::vector<GatherRound> gather_rounds(int rank, int size);

/// The ranks that share their values, and this rank's position among them.
struct Ring {
  std::vector<int> ranks;
  std::size_t place = 0;

  /// Returns the rank whose entry is `i` places after this rank's.
  [[nodiscard]] int rank_at(std::size_t i) const { return ranks[(place + i) % ranks.size()]; }
  /// Returns the index of the entry of ranks[other].
  [[nodiscard]] std::size_t entry_of(std::size_t other) const { return (other + ranks.size() - place) % ranks.size(); }
};

/// Returns true if a few consecutive messages take less time than simultaneous messages to all ranks.
[[nodiscard]] bool is_large(const Ring& ring);

/// Fills `entries`, which has `bytes` bytes for each rank: the caller has set this rank's entry, and the entries of the
/// ranks after it around the ring follow.
/// Blocks: yes. Throws: anything Transport::exchange() throws.
void gather_around(Transport& transport, const Ring& ring, std::byte* entries, std::size_t bytes,
                   const Collective& collective);

}  // namespace lockstep::comm
