// SPDX-License-Identifier: Apache-2.0
// Writes little-endian numbers and length-prefixed strings. Reads them from untrusted bytes, never past the end.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace lockstep::data {

static_assert(std::endian::native == std::endian::little,
              "the packed format is little-endian, and this code requires a little-endian machine");

class ByteWriter {
 public:
  template <class T>
  void put(T value) {
    static_assert(std::is_arithmetic_v<T>);
    put_raw(&value, sizeof(T));
  }
  void put_text(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    put_raw(text.data(), text.size());
  }
  void put_raw(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const char*>(data);
    bytes_.insert(bytes_.end(), bytes, bytes + size);
  }
  void put_zeros(std::size_t count) { bytes_.resize(bytes_.size() + count, 0); }
  [[nodiscard]] std::string_view view() const noexcept { return {bytes_.data(), bytes_.size()}; }
  [[nodiscard]] std::string text() const { return std::string(view()); }

 private:
  std::vector<char> bytes_;
};

/// After the first read past the end, ok() is false and all reads return zero.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  [[nodiscard]] T get() {
    static_assert(std::is_arithmetic_v<T>);
    T value{};
    if (const std::string_view raw = get_raw(sizeof(T)); ok_) std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }
  [[nodiscard]] std::string_view get_raw(std::uint64_t size) {
    if (!ok_ || size > bytes_.size() - at_) {
      ok_ = false;
      return {};
    }
    const std::string_view part = bytes_.substr(at_, size);
    at_ += size;
    return part;
  }
  [[nodiscard]] std::string get_text() { return std::string(get_raw(get<std::uint32_t>())); }
  /// Returns the number of elements that follow, each of at least `least` bytes; 0 if the rest is too short for them.
  [[nodiscard]] std::uint32_t get_count(std::size_t least) {
    const auto count = get<std::uint32_t>();
    if (count > (bytes_.size() - at_) / least) ok_ = false;
    return ok_ ? count : 0;
  }
  [[nodiscard]] bool ok() const noexcept { return ok_; }
  [[nodiscard]] std::size_t at() const noexcept { return at_; }
  [[nodiscard]] std::size_t left() const noexcept { return bytes_.size() - at_; }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace lockstep::data
