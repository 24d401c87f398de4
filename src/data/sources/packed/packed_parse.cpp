// SPDX-License-Identifier: Apache-2.0
// Header, index and footer of a packed file.
#include "data/sources/packed/packed_parse.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "data/codec.h"
#include "data/sources/files/byte_order.h"

namespace lockstep::data {
namespace {

// Returns what is wrong with an entry; "" if it is valid.
std::string entry_fault(const PackedEntry& entry, std::uint64_t index_at) {
  if (entry.offset % kPackedAlign != 0 || entry.offset < kPackedStart || entry.offset > index_at)
    return "begins outside";
  if (entry.pixel_bytes > index_at - entry.offset || entry.marks_bytes > index_at - entry.offset - entry.pixel_bytes) {
    return "reaches outside";
  }
  if (entry.encoded > 1) return fmt::format("is of unknown kind {}", entry.encoded);
  const bool sides = entry.width >= 1 && entry.height >= 1 && entry.width <= kMaxSide && entry.height <= kMaxSide &&
                     std::int64_t{entry.width} * entry.height <= max_pixels();
  const bool channels = entry.encoded == 1 || entry.channels == 1 || entry.channels == 3;
  if (!sides || !channels) {
    return fmt::format("has {} x {} pixels of {} channels", entry.width, entry.height, entry.channels);
  }
  if (entry.encoded == 1) return "";
  const std::uint64_t expected = std::uint64_t{entry.width} * entry.height * entry.channels;
  return entry.pixel_bytes == expected ? "" : fmt::format("has {} bytes instead of {}", entry.pixel_bytes, expected);
}

struct Footer {
  std::uint64_t count = 0;
  std::uint64_t index_at = 0;
  std::uint64_t index_bytes = 0;
  std::uint64_t index_hash = 0;
};

Result<Footer> read_footer(std::string_view file, PackedCheck check) {
  const std::uint64_t at = file.size() - kPackedFooterBytes;
  const std::string_view bytes = file.substr(at);
  if (!bytes.ends_with(kPackedEnd)) return Failure{fmt::format("byte {}: the end marker is missing", at)};
  ByteReader reader(bytes);
  Footer footer;
  footer.count = reader.get<std::uint64_t>();
  footer.index_at = reader.get<std::uint64_t>();
  footer.index_bytes = reader.get<std::uint64_t>();
  footer.index_hash = reader.get<std::uint64_t>();
  const auto file_bytes = reader.get<std::uint64_t>();
  const auto own_hash = reader.get<std::uint64_t>();
  if (check == PackedCheck::kHash && own_hash != packed_hash(bytes.substr(0, 40))) {
    return Failure{fmt::format("byte {}: the footer differs from what was written", at)};
  }
  const bool fits = file_bytes == file.size() && footer.index_at >= kPackedStart && footer.index_at <= at &&
                    footer.index_bytes == at - footer.index_at &&
                    footer.count <= footer.index_bytes / kPackedEntryBytes;
  if (!fits) return Failure{fmt::format("byte {}: the footer does not fit a file of {} bytes", at, file.size())};
  return footer;
}

Result<std::vector<std::string>> read_classes(std::string_view bytes) {
  ByteReader reader(bytes);
  std::vector<std::string> classes(reader.get_count(sizeof(std::uint32_t)));
  for (std::string& name : classes) name = reader.get_text();
  if (!reader.ok() || reader.left() > 0) return Failure{"the class names do not fit the index"};
  return classes;
}

}  // namespace

std::uint64_t packed_hash(std::string_view bytes) noexcept { return XXH3_64bits(bytes.data(), bytes.size()); }

PackedEntry PackedIndex::entry(std::int64_t index) const {
  ByteReader reader(entries.substr(static_cast<std::size_t>(index) * kPackedEntryBytes, kPackedEntryBytes));
  PackedEntry entry;
  entry.offset = reader.get<std::uint64_t>();
  entry.pixel_bytes = reader.get<std::uint64_t>();
  entry.hash = reader.get<std::uint64_t>();
  entry.marks_bytes = reader.get<std::uint32_t>();
  entry.width = reader.get<std::uint32_t>();
  entry.height = reader.get<std::uint32_t>();
  entry.encoded = reader.get<std::uint8_t>();
  entry.channels = reader.get<std::uint8_t>();
  return entry;
}

std::string packed_header() {
  ByteWriter writer;
  writer.put_raw(kPackedMagic.data(), kPackedMagic.size());
  writer.put(kPackedVersion);
  writer.put_zeros(kPackedStart - writer.view().size());
  return writer.text();
}

std::string packed_entry(const PackedEntry& entry) {
  ByteWriter writer;
  writer.put(entry.offset);
  writer.put(entry.pixel_bytes);
  writer.put(entry.hash);
  writer.put(entry.marks_bytes);
  writer.put(entry.width);
  writer.put(entry.height);
  writer.put(entry.encoded);
  writer.put(entry.channels);
  writer.put_zeros(kPackedEntryBytes - writer.view().size());
  return writer.text();
}

std::string packed_classes(const std::vector<std::string>& classes) {
  ByteWriter writer;
  writer.put(static_cast<std::uint32_t>(classes.size()));
  for (const std::string& name : classes) writer.put_text(name);
  return writer.text();
}

std::string packed_footer(std::string_view index, std::uint64_t at, std::uint64_t count) {
  ByteWriter writer;
  writer.put(count);
  writer.put(at);
  writer.put(static_cast<std::uint64_t>(index.size()));
  writer.put(packed_hash(index));
  writer.put(at + index.size() + kPackedFooterBytes);
  writer.put(packed_hash(writer.view()));
  writer.put_zeros(kPackedFooterBytes - kPackedEnd.size() - writer.view().size());
  writer.put_raw(kPackedEnd.data(), kPackedEnd.size());
  return writer.text();
}

Result<PackedIndex> parse_packed(std::string_view file, PackedCheck check) {
  if (!file.starts_with(kPackedMagic)) return Failure{"byte 0: not a packed file"};
  if (file.size() < kPackedStart + kPackedFooterBytes) return Failure{fmt::format("byte {}: cut short", file.size())};
  ByteReader start(file.substr(kPackedMagic.size(), sizeof(kPackedVersion)));
  if (const auto version = start.get<std::uint32_t>(); version != kPackedVersion) {
    return Failure{
        fmt::format("byte {}: version {}; this program reads {}", kPackedMagic.size(), version, kPackedVersion)};
  }
  const Result<Footer> footer = read_footer(file, check);
  if (!footer) return Failure{footer.error()};
  const std::string_view bytes = file.substr(footer->index_at, footer->index_bytes);
  if (check == PackedCheck::kHash && packed_hash(bytes) != footer->index_hash) {
    return Failure{fmt::format("byte {}: the index differs from what was written", footer->index_at)};
  }
  PackedIndex index{bytes.substr(0, footer->count * kPackedEntryBytes), static_cast<std::int64_t>(footer->count), {}};
  for (std::int64_t i = 0; i < index.count; ++i) {
    if (const std::string why = entry_fault(index.entry(i), footer->index_at); !why.empty()) {
      const std::uint64_t at = footer->index_at + static_cast<std::uint64_t>(i) * kPackedEntryBytes;
      return Failure{fmt::format("byte {}: sample {} {}", at, i, why)};
    }
  }
  Result<std::vector<std::string>> classes = read_classes(bytes.substr(index.entries.size()));
  if (!classes) return Failure{fmt::format("byte {}: {}", footer->index_at, classes.error())};
  index.classes = std::move(classes).value();
  return index;
}

}  // namespace lockstep::data
