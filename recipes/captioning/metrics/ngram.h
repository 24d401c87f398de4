// SPDX-License-Identifier: Apache-2.0
// The table of n-grams (one to four word ids) and their counts for document frequencies. Ids are packed in full, so two
// n-grams never share a key. No torch header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::captioning {

/// Word ids, such as the words of a caption.
using Ids = std::vector<std::int64_t>;

inline constexpr int kLongestNgram = 4;
/// The largest id in an n-gram; the smallest is 0.
inline constexpr std::int64_t kLargestId = 0xFFFFFFFE;
/// The largest id in a table with 16 bits per id.
inline constexpr std::int64_t kLargestShortId = 0xFFFE;

/// Ids, each plus one, the last one in the lowest bits and zeros above the first: four 16-bit ids in `low`, or four
/// 32-bit ids in both members.
struct NgramKey {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  bool operator==(const NgramKey&) const = default;
  auto operator<=>(const NgramKey&) const = default;
};

/// Packs n ids, 1 <= n <= 4, into a key. Returns false if an id does not fit.
[[nodiscard]] bool pack_ngram(const std::int64_t* ids, int n, bool wide, NgramKey& key) noexcept;

/// Throws: UsageError naming an id that is not within 0 .. kLargestId.
void check_ids(const std::int64_t* ids, std::int64_t count);

/// Calls `take(n, first id)` for each n-gram, shorter ones first.
template <class Take>
void each_ngram(const std::int64_t* ids, std::int64_t count, const Take& take) {
  for (int n = 1; n <= kLongestNgram; ++n) {
    for (std::int64_t i = 0; i + n <= count; ++i) take(n, ids + i);
  }
}

/// An open-addressing hash table with a number for each n-gram. Thread-safe: only for reading.
class NgramTable {
 public:
  /// wide: allows ids above kLargestShortId; the table then takes 50 % more memory.
  explicit NgramTable(bool wide = false);

  /// Adds one to the number of the n-gram, whose key was packed for this table's width.
  void add(const NgramKey& key) { insert(key, 1); }
  /// The number of the n-gram; 0 if it was never added.
  [[nodiscard]] std::uint32_t find(const NgramKey& key) const noexcept { return slots_[slot_of(key)].number; }
  /// Prefetches the memory for find(): a large table does not fit in any cache, and many concurrent prefetches take no
  /// longer than one cache miss.
  void prefetch(const NgramKey& key) const noexcept;

  [[nodiscard]] bool wide() const noexcept { return wide_; }
  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(used_); }

  /// Entries in ascending order of their keys, little-endian: the key (8 bytes, or 16 with `high` second if the table
  /// is wide), then the number (4 bytes).
  [[nodiscard]] std::string bytes() const;
  /// Reads bytes(). Throws: DataError with the reason if the bytes are not valid, or a number is not within 1 .. most.
  [[nodiscard]] static NgramTable from_bytes(std::string_view bytes, bool wide, std::uint32_t most);

 private:
  struct Slot {
    std::uint64_t low = 0;
    std::uint32_t number = 0;  // 0: free
  };
  [[nodiscard]] std::size_t slot_of(const NgramKey& key) const noexcept;
  void insert(const NgramKey& key, std::uint32_t number);
  void grow(std::size_t slots);

  bool wide_;
  std::size_t used_ = 0;
  std::vector<Slot> slots_;
  std::vector<std::uint64_t> high_;  // high parts of wide n-grams, by slot
};

}  // namespace lockstep::captioning
