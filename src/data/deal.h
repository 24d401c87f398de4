// SPDX-License-Identifier: Apache-2.0
// Distributes elements over shards: element i goes to shard i modulo the number of shards.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/base/rank.h"
#include "lockstep/data/loader.h"

namespace lockstep::data {

/// Returns how many of `whole` elements a shard gets.
[[nodiscard]] inline std::int64_t dealt_size(std::int64_t whole, const ShardSpec& shard, Remainder remainder) {
  switch (remainder) {
    case Remainder::kPad:
      return (whole + shard.count - 1) / shard.count;
    case Remainder::kDrop:
      return whole / shard.count;
    case Remainder::kKeep:
      break;
  }
  return shard.index >= whole ? 0 : (whole - shard.index + shard.count - 1) / shard.count;
}

/// Returns the shard's elements, in order. Padding repeats the elements from the start, as often as needed.
template <class T>
[[nodiscard]] std::vector<T> deal(const std::vector<T>& whole, const ShardSpec& shard, Remainder remainder) {
  const auto size = static_cast<std::int64_t>(whole.size());
  std::vector<T> part(static_cast<std::size_t>(dealt_size(size, shard, remainder)));
  for (std::size_t i = 0; i < part.size(); ++i) {
    part[i] = whole[static_cast<std::size_t>((static_cast<std::int64_t>(i) * shard.count + shard.index) % size)];
  }
  return part;
}

}  // namespace lockstep::data
