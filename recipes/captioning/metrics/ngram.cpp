// SPDX-License-Identifier: Apache-2.0
#include "captioning/metrics/ngram.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::captioning {
namespace {

static_assert(std::endian::native == std::endian::little, "table files contain little-endian numbers");

constexpr std::size_t kFirstSlots = 1024;
constexpr double kFullest = 0.7;  // maximum fraction of slots in use

/// True if the key has no zeros except above the first id.
bool is_packed(const NgramKey& key, bool wide) noexcept {
  const int bits = wide ? 32 : 16;
  const std::uint64_t ones = (std::uint64_t{1} << bits) - 1;
  bool ended = false;
  for (int i = 0; i < kLongestNgram; ++i) {
    const std::uint64_t part = wide && i >= 2 ? key.high >> (32 * (i - 2)) : key.low >> (bits * i);
    const bool zero = (part & ones) == 0;
    if ((i == 0 && zero) || (ended && !zero)) return false;
    ended = zero;
  }
  return true;
}

std::uint64_t mixed(const NgramKey& key) noexcept {
  std::uint64_t value = (key.low ^ (key.high * 0x9E3779B97F4A7C15ULL)) * 0xD6E8FEB86659FD93ULL;
  value = (value ^ (value >> 32)) * 0xD6E8FEB86659FD93ULL;
  return value ^ (value >> 32);
}

template <class T>
T take_number(const char*& at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  at += sizeof(value);
  return value;
}

template <class T>
void append_number(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::size_t entry_size(bool wide) { return (wide ? 16 : 8) + sizeof(std::uint32_t); }

}  // namespace

bool pack_ngram(const std::int64_t* ids, int n, bool wide, NgramKey& key) noexcept {
  key = {};
  const std::int64_t most = wide ? kLargestId : kLargestShortId;
  const int bits = wide ? 32 : 16;
  for (int i = 0; i < n; ++i) {
    if (ids[i] < 0 || ids[i] > most) return false;
    if (wide) key.high = key.high << 32 | key.low >> 32;
    key.low = key.low << bits | static_cast<std::uint64_t>(ids[i] + 1);
  }
  return true;
}

void check_ids(const std::int64_t* ids, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (ids[i] < 0 || ids[i] > kLargestId) {
      throw UsageError(fmt::format("word {} of a caption has the id {}; ids are 0 to {}", i, ids[i], kLargestId));
    }
  }
}

NgramTable::NgramTable(bool wide) : wide_(wide) { grow(kFirstSlots); }

std::size_t NgramTable::slot_of(const NgramKey& key) const noexcept {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = mixed(key) & mask;
  while (slots_[at].number != 0 && (slots_[at].low != key.low || (wide_ && high_[at] != key.high)))
    at = (at + 1) & mask;
  return at;
}

void NgramTable::prefetch(const NgramKey& key) const noexcept {
  const std::size_t at = mixed(key) & (slots_.size() - 1);
  __builtin_prefetch(slots_.data() + at);
  if (wide_) __builtin_prefetch(high_.data() + at);
}

void NgramTable::insert(const NgramKey& key, std::uint32_t number) {
  if (kFullest * static_cast<double>(slots_.size()) < static_cast<double>(used_ + 1)) grow(2 * slots_.size());
  const std::size_t at = slot_of(key);
  used_ += slots_[at].number == 0 ? 1 : 0;
  slots_[at].low = key.low;
  slots_[at].number += number;
  if (wide_) high_[at] = key.high;
}

void NgramTable::grow(std::size_t slots) {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots));
  const std::vector<std::uint64_t> old_high = std::exchange(high_, std::vector<std::uint64_t>(wide_ ? slots : 0));
  for (std::size_t i = 0; i < old.size(); ++i) {
    if (old[i].number == 0) continue;
    const NgramKey key{.high = wide_ ? old_high[i] : 0, .low = old[i].low};
    const std::size_t at = slot_of(key);
    slots_[at] = old[i];
    if (wide_) high_[at] = key.high;
  }
}

std::string NgramTable::bytes() const {
  std::vector<std::pair<NgramKey, std::uint32_t>> entries;
  entries.reserve(used_);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].number == 0) continue;
    entries.emplace_back(NgramKey{.high = wide_ ? high_[i] : 0, .low = slots_[i].low}, slots_[i].number);
  }
  std::ranges::sort(entries);
  std::string bytes;
  bytes.reserve(entries.size() * entry_size(wide_));
  for (const auto& [key, number] : entries) {
    append_number(bytes, key.low);
    if (wide_) append_number(bytes, key.high);
    append_number(bytes, number);
  }
  return bytes;
}

NgramTable NgramTable::from_bytes(std::string_view bytes, bool wide, std::uint32_t most) {
  const std::size_t count = bytes.size() / entry_size(wide);
  if (count * entry_size(wide) != bytes.size()) {
    throw DataError(fmt::format("{} bytes of n-grams are not a multiple of {}", bytes.size(), entry_size(wide)));
  }
  NgramTable table(wide);
  table.grow(std::bit_ceil(std::max(kFirstSlots, 2 * count + 2)));
  NgramKey last;
  const char* at = bytes.data();
  for (std::size_t i = 0; i < count; ++i) {
    NgramKey key;
    key.low = take_number<std::uint64_t>(at);
    if (wide) key.high = take_number<std::uint64_t>(at);
    const auto number = take_number<std::uint32_t>(at);
    if (key <= last || !is_packed(key, wide)) throw DataError(fmt::format("n-gram {} is out of order or invalid", i));
    if (number < 1 || number > most) {
      throw DataError(fmt::format("n-gram {} is in {} images, but there are {}", i, number, most));
    }
    table.insert(key, number);
    last = key;
  }
  return table;
}

}  // namespace lockstep::captioning
