// SPDX-License-Identifier: Apache-2.0
// Turns plain values into bytes and back, in this machine's byte order, for messages between ranks. No torch header.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "lockstep/base/error.h"

namespace lockstep::detection {

/// Appends the first `size` bytes of `value`.
template <class T>
void append_bytes(std::string& bytes, T value, std::size_t size = sizeof(T)) {
  bytes.append(reinterpret_cast<const char*>(&value), size);
}

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  /// Takes the next `size` bytes. A bool is true if its byte is not 0: bytes other than 0 and 1 would not be valid
  /// bools. Throws: InternalError if there are not enough bytes left.
  template <class T>
  [[nodiscard]] T take(std::size_t size = sizeof(T)) {
    if constexpr (std::is_same_v<T, bool>) return take<unsigned char>() != 0;
    if (bytes_.size() < size) throw InternalError("the results of an evaluation are truncated");
    T value{};
    std::memcpy(&value, bytes_.data(), size);
    bytes_.remove_prefix(size);
    return value;
  }
  [[nodiscard]] bool done() const noexcept { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

}  // namespace lockstep::detection
