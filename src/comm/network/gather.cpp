// SPDX-License-Identifier: Apache-2.0
#include "comm/network/gather.h"

#include <algorithm>

namespace lockstep::comm {

std::vector<GatherRound> gather_rounds(int rank, int size) {
  std::vector<GatherRound> rounds;
  for (int known = 1; known < size; known *= 2) {
    rounds.push_back({.to = (rank + size - known) % size,
                      .from = (rank + known) % size,
                      .count = std::min(known, size - known),
                      .known = known});
  }
  return rounds;
}

bool is_large(const Ring& ring) { return ring.ranks.size() > 8; }

namespace {

void send_to_each(Transport& transport, const Ring& ring, std::byte* entries, std::size_t bytes,
                  const Collective& collective) {
  std::vector<Message> sends;
  std::vector<Message> receives;
  for (std::size_t i = 1; i < ring.ranks.size(); ++i) {
    sends.push_back({ring.rank_at(i), entries, bytes});
    receives.push_back({ring.rank_at(i), entries + i * bytes, bytes});
  }
  transport.exchange(sends, receives, collective);
}

}  // namespace

void gather_around(Transport& transport, const Ring& ring, std::byte* entries, std::size_t bytes,
                   const Collective& collective) {
  if (!is_large(ring)) return send_to_each(transport, ring, entries, bytes, collective);
  for (const GatherRound& round : gather_rounds(static_cast<int>(ring.place), static_cast<int>(ring.ranks.size()))) {
    const std::size_t size = static_cast<std::size_t>(round.count) * bytes;
    std::byte* const place = entries + static_cast<std::size_t>(round.known) * bytes;
    transport.exchange({{ring.ranks[static_cast<std::size_t>(round.to)], entries, size}},
                       {{ring.ranks[static_cast<std::size_t>(round.from)], place, size}}, collective);
  }
}

}  // namespace lockstep::comm
