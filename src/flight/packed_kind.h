// SPDX-License-Identifier: Apache-2.0
// Packs an event's kind into one word, so that readers never see it half written.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lockstep/flight/ring.h"

namespace lockstep::flight {

struct PackedKind {
  EventType type = EventType::kNone;
  std::uint64_t name = 0;
  int group = 0;
  int bucket = -1;
  int buckets = 0;
};

[[nodiscard]] constexpr std::uint64_t pack(const PackedKind& kind) noexcept {
  const auto field = [](int value, unsigned bits) {
    return static_cast<std::uint64_t>(std::clamp(value, 0, (1 << bits) - 1));
  };
  return static_cast<std::uint64_t>(kind.type) | std::min<std::uint64_t>(kind.name, 255) << 8U |
         field(kind.group, 16) << 16U | field(kind.bucket + 1, 16) << 32U | field(kind.buckets, 16) << 48U;
}

[[nodiscard]] constexpr PackedKind unpack(std::uint64_t word) noexcept {
  return {.type = static_cast<EventType>(word & 0xffU),
          .name = word >> 8U & 0xffU,
          .group = static_cast<int>(word >> 16U & 0xffffU),
          .bucket = static_cast<int>(word >> 32U & 0xffffU) - 1,
          .buckets = static_cast<int>(word >> 48U)};
}

}  // namespace lockstep::flight
