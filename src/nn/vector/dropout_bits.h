// SPDX-License-Identifier: Apache-2.0
// The elements that dropout keeps, as bits: a pure function of seed and index, computed by a counter-based generator,
// so that neither the number of threads nor the order matters. Does not use libtorch.
#pragma once

#include <cstdint>

namespace lockstep::nn {

/// Returns the number of bytes needed for the bits of `count` elements: whole blocks, and 4 more so that 32 bits can be
/// read at the last byte.
[[nodiscard]] std::int64_t dropout_bytes(std::int64_t count);

/// Writes the bits of elements [128 * begin_block, 128 * end_block) to `bits`, which starts at element 0. A bit is set
/// with probability `keep`, rounded to 1 / 65536 (one half is exact). Source: Salmon et al., Parallel Random Numbers:
/// As Easy as 1, 2, 3, 2011 (Philox4x32-10).
void fill_dropout_bits(std::uint8_t* bits, std::int64_t begin_block, std::int64_t end_block, std::uint64_t seed,
                       double keep);

/// Computes the 4 words of Philox4x32-10 for the counter {low, high, 0, 0}. For tests.
void philox_block(std::uint64_t counter, std::uint64_t seed, std::uint32_t* words);

}  // namespace lockstep::nn
