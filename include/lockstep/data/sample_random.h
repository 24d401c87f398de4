// SPDX-License-Identifier: Apache-2.0
// Random numbers that depend only on (seed, epoch, index): integer arithmetic with a fixed algorithm (splitmix64 into
// xoshiro256**), so that every compiler, standard library and number of threads gives the same numbers. No torch
// header.
#pragma once

#include <array>
#include <cstdint>

#pragma GCC visibility push(default)

namespace lockstep {

/// The random numbers of one sample. Thread-safe: no; each sample has its own.
/// Source: Blackman and Vigna, "Scrambled linear pseudorandom number generators" (xoshiro256**, splitmix64).
class SampleRandom {
 public:
  using result_type = std::uint64_t;  ///< for the distributions of the standard library

  explicit SampleRandom(std::uint64_t seed = 0, std::uint64_t epoch = 0, std::uint64_t index = 0) noexcept {
    std::uint64_t mix = seed;
    mix = scramble(mix) ^ epoch;
    mix = scramble(mix) ^ index;
    for (auto& word : state_) word = scramble(mix);
  }

  /// Returns the smallest possible number.
  static constexpr result_type min() noexcept { return 0; }
  /// Returns the largest possible number.
  static constexpr result_type max() noexcept { return ~std::uint64_t{0}; }

  /// Returns 64 random bits.
  std::uint64_t operator()() noexcept {
    const std::uint64_t result = rotate(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = rotate(state_[3], 45);
    return result;
  }

  /// Returns x with 0 <= x < 1, with 53 random bits.
  double uniform() noexcept { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }

  /// Returns x with low <= x < high.
  double uniform(double low, double high) noexcept { return low + (high - low) * uniform(); }

  /// Returns one of 0 .. count - 1, all equally likely; `count` > 0.
  std::uint64_t below(std::uint64_t count) noexcept {
    const std::uint64_t limit = max() - max() % count;
    std::uint64_t bits = (*this)();
    while (bits >= limit) bits = (*this)();
    return bits % count;
  }

  /// Returns one of low .. high, both included.
  std::int64_t between(std::int64_t low, std::int64_t high) noexcept {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
  }

  /// Returns true with probability `p`.
  bool chance(double p) noexcept { return uniform() < p; }

 private:
  static std::uint64_t rotate(std::uint64_t x, int bits) noexcept { return (x << bits) | (x >> (64 - bits)); }

  static std::uint64_t scramble(std::uint64_t& state) noexcept {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  std::array<std::uint64_t, 4> state_{};
};

}  // namespace lockstep

#pragma GCC visibility pop
