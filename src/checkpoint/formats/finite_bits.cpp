// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/formats/finite_bits.h"

#include <algorithm>

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kBlock = 4096;  // elements

/// The bits of a floating type: NaN and infinity have all bits of `exponent` set, and NaN has further bits set.
template <class Word>
struct Bits {
  Word exponent;
  Word magnitude;
};

/// Returns true if no value is NaN or infinite. The loop has no branches, so that the compiler vectorizes it.
template <class Word>
bool all_finite(const Word* words, std::size_t count, Word exponent) {
  Word special = 0;
  for (std::size_t i = 0; i < count; ++i) special |= static_cast<Word>((words[i] & exponent) == exponent ? 1 : 0);
  return special == 0;
}

template <class Word>
NotFiniteCount count_in(const void* data, std::size_t bytes, Bits<Word> bits) {
  const auto* words = static_cast<const Word*>(data);
  const std::size_t all = bytes / sizeof(Word);
  NotFiniteCount found;
  for (std::size_t begin = 0; begin < all; begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, all);
    if (all_finite(words + begin, end - begin, bits.exponent)) continue;
    for (std::size_t i = begin; i < end; ++i) {
      const auto magnitude = static_cast<Word>(words[i] & bits.magnitude);
      if (magnitude == bits.exponent) ++found.infinite;
      if (magnitude > bits.exponent) ++found.nan;
    }
  }
  return found;
}

}  // namespace

bool is_floating(DType dtype) noexcept {
  return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

NotFiniteCount count_not_finite(DType dtype, const void* data, std::size_t bytes) {
  switch (dtype) {
    case DType::kF64:
      return count_in<std::uint64_t>(data, bytes, {0x7FF0000000000000U, 0x7FFFFFFFFFFFFFFFU});
    case DType::kF32:
      return count_in<std::uint32_t>(data, bytes, {0x7F800000U, 0x7FFFFFFFU});
    case DType::kF16:
      return count_in<std::uint16_t>(data, bytes, {0x7C00U, 0x7FFFU});
    case DType::kBF16:
      return count_in<std::uint16_t>(data, bytes, {0x7F80U, 0x7FFFU});
    default:
      return {};
  }
}

}  // namespace lockstep::checkpoint
