// SPDX-License-Identifier: Apache-2.0
#include "store/wire.h"

namespace lockstep::store {
namespace {

template <class Int>
void append_little_endian(std::string& bytes, Int value) {
  for (std::size_t i = 0; i < sizeof(Int); ++i) bytes.push_back(static_cast<char>((value >> (8 * i)) & 0xFFU));
}

template <class Int>
Int read_little_endian(const char* bytes) {
  Int value = 0;
  for (std::size_t i = 0; i < sizeof(Int); ++i) {
    value |= static_cast<Int>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

}  // namespace

FrameWriter& FrameWriter::string(std::string_view value) {
  append_little_endian(bytes_, static_cast<std::uint32_t>(value.size()));
  bytes_.append(value);
  return *this;
}

FrameWriter& FrameWriter::number(std::int64_t value) {
  append_little_endian(bytes_, static_cast<std::uint64_t>(value));
  return *this;
}

FrameWriter& FrameWriter::strings(const std::vector<std::string>& values) {
  append_little_endian(bytes_, static_cast<std::uint32_t>(values.size()));
  for (const auto& value : values) string(value);
  return *this;
}

std::string FrameWriter::take() {
  std::string header;
  append_little_endian(header, static_cast<std::uint32_t>(bytes_.size() - kHeaderBytes));
  bytes_.replace(0, kHeaderBytes, header);
  return std::move(bytes_);
}

std::string_view FrameReader::take(std::size_t count) {
  if (!ok_ || count > rest_.size()) {
    ok_ = false;
    return {};
  }
  const auto taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

std::uint8_t FrameReader::byte() {
  const auto taken = take(1);
  return taken.empty() ? 0 : static_cast<std::uint8_t>(taken[0]);
}

std::uint32_t FrameReader::length() {
  const auto taken = take(sizeof(std::uint32_t));
  return taken.empty() ? 0 : read_little_endian<std::uint32_t>(taken.data());
}

std::string FrameReader::string() { return std::string(take(length())); }

std::int64_t FrameReader::number() {
  const auto taken = take(sizeof(std::int64_t));
  return taken.empty() ? 0 : static_cast<std::int64_t>(read_little_endian<std::uint64_t>(taken.data()));
}

std::vector<std::string> FrameReader::strings() {
  std::vector<std::string> values;
  // The list grows with the bytes that were read, not with the count, which may be wrong.
  for (std::uint32_t left = length(); ok_ && left > 0; --left) {
    ok_ = values.size() < kMaxStrings;
    if (ok_) values.push_back(string());
  }
  return values;
}

std::size_t bytes_of(const std::vector<std::string>& strings) {
  std::size_t bytes = 0;
  for (const std::string& each : strings) bytes += sizeof each + each.size();
  return bytes;
}

std::uint32_t read_length(const char* header) { return read_little_endian<std::uint32_t>(header); }

}  // namespace lockstep::store
