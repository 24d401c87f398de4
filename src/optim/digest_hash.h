// SPDX-License-Identifier: Apache-2.0
// The hash of one word and its index (docs/formats/digests.md).
#pragma once

#include <cstdint>

namespace lockstep::optim {

inline constexpr std::uint64_t kDigestStep = 0x9E3779B97F4A7C15U;
inline constexpr int kDigestShift = 31;

/// Returns the key that two neighbouring words share. Each of the two uses one half of the key as a mask and the other
/// half, made odd, as a factor.
[[nodiscard]] constexpr std::uint64_t pair_key(std::uint64_t seed, std::uint64_t pair) {
  return seed + pair * kDigestStep;
}

/// Returns the hash of a word. Different words at the same position hash differently, because each step is invertible.
[[nodiscard]] constexpr std::uint64_t hash_word(std::uint32_t word, std::uint64_t place, std::uint64_t seed) {
  const std::uint64_t key = pair_key(seed, place / 2);
  const auto low = static_cast<std::uint32_t>(key);
  const auto high = static_cast<std::uint32_t>(key >> 32U);
  const bool second = place % 2 == 1;
  const std::uint64_t mixed = word ^ (second ? high : low);
  const std::uint64_t product = mixed * ((second ? low : high) | 1U);
  return product ^ (product >> static_cast<unsigned>(kDigestShift));
}

}  // namespace lockstep::optim
