// SPDX-License-Identifier: Apache-2.0
#include "captioning/data/npz.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <optional>

#include "captioning/metrics/tokens.h"

namespace lockstep::captioning {
namespace {

// Source: PKWARE's APPNOTE 6.3, sections 4.3.7, 4.3.12 and 4.3.16.
constexpr std::uint32_t kZipLocalMark = 0x04034b50;
constexpr std::uint32_t kZipEntryMark = 0x02014b50;
constexpr std::uint32_t kZipEndMark = 0x06054b50;
constexpr std::size_t kZipLocalSize = 30;
constexpr std::size_t kZipEntrySize = 46;
constexpr std::size_t kZipEndSize = 22;
constexpr std::size_t kZipLongestComment = 0xffff;
constexpr std::uint32_t kZipIn64Bits = 0xffffffff;
constexpr std::uint64_t kDeflateMostFold = 1032;  // deflate's maximum compression ratio
constexpr std::size_t kInflateStep = 1U << 16U;
constexpr std::size_t kNamedMembers = 8;

std::uint32_t little(std::string_view bytes, std::size_t at, std::size_t count) {
  std::uint32_t value = 0;
  for (std::size_t i = count; i-- > 0;) value = value << 8U | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

struct ZipEntryInfo {
  std::uint32_t flags = 0;
  std::uint32_t method = 0;
  std::uint32_t crc = 0;
  std::uint64_t packed = 0;
  std::uint64_t size = 0;
  std::uint64_t local = 0;  // offset of the member's own header
};

/// The bytes of the central directory, the last part of the file before the end record.
std::optional<std::string_view> find_zip_directory(std::string_view file) {
  if (file.size() < kZipEndSize) return std::nullopt;
  const std::size_t last = file.size() - kZipEndSize;
  const std::size_t first = last > kZipLongestComment ? last - kZipLongestComment : 0;
  for (std::size_t at = last + 1; at-- > first;) {
    if (little(file, at, 4) != kZipEndMark || little(file, at + 20, 2) != last - at) continue;
    const std::uint64_t size = little(file, at + 12, 4);
    const std::uint64_t offset = little(file, at + 16, 4);
    if (offset > at || size > at - offset) return std::nullopt;
    return file.substr(offset, size);
  }
  return std::nullopt;
}

/// The entry with this name.
Result<ZipEntryInfo> find_zip_entry(std::string_view directory, std::string_view name) {
  std::optional<ZipEntryInfo> found;
  std::string others;
  std::size_t count = 0;
  while (!directory.empty()) {
    if (directory.size() < kZipEntrySize || little(directory, 0, 4) != kZipEntryMark) {
      return Failure{"a damaged zip file: its directory is truncated"};
    }
    const std::size_t name_size = little(directory, 28, 2);
    const std::size_t size = kZipEntrySize + name_size + little(directory, 30, 2) + little(directory, 32, 2);
    if (size > directory.size()) return Failure{"a damaged zip file: its directory is truncated"};
    const std::string_view member = directory.substr(kZipEntrySize, name_size);
    if (member == name) {
      if (found) return Failure{fmt::format("a damaged zip file: it has {} twice", name)};
      found = ZipEntryInfo{.flags = little(directory, 8, 2),
                           .method = little(directory, 10, 2),
                           .crc = little(directory, 16, 4),
                           .packed = little(directory, 20, 4),
                           .size = little(directory, 24, 4),
                           .local = little(directory, 42, 4)};
    } else if (count++ < kNamedMembers) {
      others += fmt::format("{}{}", others.empty() ? "" : ", ", shown(member));
    }
    directory.remove_prefix(size);
  }
  if (found) return *found;
  if (count == 0) return Failure{fmt::format("it has no {}: it is empty", name)};
  return Failure{fmt::format("it has no {}, only {}{}", name, others, count > kNamedMembers ? ", ..." : "")};
}

/// The bytes of the member in the file; no value if it is not at the offset given by the directory.
std::optional<std::string_view> packed_bytes(std::string_view file, const ZipEntryInfo& entry) {
  if (entry.local > file.size() || file.size() - entry.local < kZipLocalSize) return std::nullopt;
  const std::string_view header = file.substr(entry.local);
  if (little(header, 0, 4) != kZipLocalMark) return std::nullopt;
  const std::size_t start = kZipLocalSize + little(header, 26, 2) + little(header, 28, 2);
  if (start > header.size() || header.size() - start < entry.packed) return std::nullopt;
  return header.substr(start, entry.packed);
}

/// Unpacks `packed`; no value if it is damaged or does not unpack to `size` bytes.
std::optional<std::string> inflate_all(std::string_view packed, std::uint64_t size) {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return std::nullopt;  // negative for raw deflate
  std::string out;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());  // cannot overflow: the directory's sizes have 32 bits
  int code = Z_OK;
  while (code == Z_OK && out.size() <= size) {
    const std::size_t before = out.size();
    out.resize(before + std::min<std::uint64_t>(std::max(before, kInflateStep), size + 1 - before));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream.avail_out = static_cast<uInt>(out.size() - before);
    code = inflate(&stream, Z_NO_FLUSH);
    out.resize(out.size() - stream.avail_out);
    if (out.size() == before) break;
  }
  const bool whole = code == Z_STREAM_END && stream.avail_in == 0 && out.size() == size;
  inflateEnd(&stream);
  if (!whole) return std::nullopt;
  return out;
}

/// Returns the problem with a member's directory entry; "" if there is none.
std::string entry_problem(const ZipEntryInfo& entry, std::string_view name, std::uint64_t most) {
  if ((entry.flags & 1U) != 0) return fmt::format("{} is encrypted", name);
  if (entry.method != 0 && entry.method != 8) {
    return fmt::format("{} is compressed with method {}; it must be 0 (stored) or 8 (deflate)", name, entry.method);
  }
  if (entry.size == kZipIn64Bits || entry.packed == kZipIn64Bits || entry.local == kZipIn64Bits) {
    return fmt::format("{} is 4 GiB or larger", name);
  }
  if (entry.method == 0 && entry.packed != entry.size) {
    return fmt::format("{} is not compressed, but has {} bytes instead of {}", name, entry.packed, entry.size);
  }
  if (entry.size > most) return fmt::format("{} has {} bytes, more than the maximum of {}", name, entry.size, most);
  if (entry.size / kDeflateMostFold > entry.packed) {
    return fmt::format("{} claims to unpack from {} bytes to {}, more than deflate can", name, entry.packed,
                       entry.size);
  }
  return "";
}

}  // namespace

Result<ZipContent> read_zip_member(std::string_view file, std::string_view name, std::uint64_t most) {
  const auto directory = find_zip_directory(file);
  if (!directory) return Failure{"it is not a zip file, or is truncated: it has no end record"};
  const auto entry = find_zip_entry(*directory, name);
  if (!entry) return Failure{entry.error()};
  if (std::string problem = entry_problem(*entry, name, most); !problem.empty()) return Failure{std::move(problem)};
  const auto packed = packed_bytes(file, *entry);
  if (!packed) return Failure{fmt::format("a damaged zip file: {} is not at byte {}", name, entry->local)};
  ZipContent content{.own = {}, .stored = *packed, .deflated = entry->method == 8};
  if (content.deflated) {
    auto unpacked = inflate_all(*packed, entry->size);
    if (!unpacked) return Failure{fmt::format("the compressed bytes of {} are damaged", name)};
    content.own = std::move(*unpacked);
  }
  const std::string_view bytes = content.bytes();
  const uLong crc = crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
  if (crc != entry->crc) {
    return Failure{
        fmt::format("the bytes of {} have CRC-32 {:08x}, but the zip file says {:08x}", name, crc, entry->crc)};
  }
  return content;
}

}  // namespace lockstep::captioning
