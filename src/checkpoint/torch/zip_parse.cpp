// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch/zip_parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "checkpoint/formats/little_endian.h"
#include "checkpoint/torch/zip_layout.h"
#include "lockstep/base/text.h"

namespace lockstep::checkpoint {
namespace {

/// Where the central directory lies.
struct ZipDirectory {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t members = 0;
  std::uint64_t end = 0;  ///< the offset of the bytes after it
};

std::uint64_t number_at(std::string_view bytes, std::uint64_t offset, std::size_t count) {
  return from_little_endian(bytes.substr(offset, count), count);
}

/// Returns the offset of the last end record whose comment ends exactly at the end of the file.
std::optional<std::uint64_t> find_end_record(std::string_view file) {
  if (file.size() < kZipEndBytes) return std::nullopt;
  const std::uint64_t last = file.size() - kZipEndBytes;
  const std::uint64_t first = last > kZipMaxComment ? last - kZipMaxComment : 0;
  for (std::uint64_t at = last + 1; at-- > first;) {
    if (number_at(file, at, 4) == kZipEnd && number_at(file, at + 20, 2) == last - at) return at;
  }
  return std::nullopt;
}

Failure zip_failure(std::string_view fault) { return Failure{fmt::format("a damaged zip file: {}", fault)}; }

/// Reads the 64-bit end record. It replaces the fields of the small end record in which all bits are set.
Result<ZipDirectory> read_end64(std::string_view file, std::uint64_t end, const ZipDirectory& small) {
  const std::uint64_t locator = end - kZipLocatorBytes;
  const std::uint64_t at = number_at(file, locator + 8, 8);
  if (at > locator || locator - at < kZipEnd64Bytes || number_at(file, at, 4) != kZipEnd64) {
    return zip_failure("its 64-bit end record is not where it should be");
  }
  if (number_at(file, at + 16, 4) != 0 || number_at(file, at + 20, 4) != 0 || number_at(file, locator + 4, 4) != 0) {
    return zip_failure("it is one part of a multi-part archive");
  }
  ZipDirectory large{number_at(file, at + 48, 8), number_at(file, at + 40, 8), number_at(file, at + 32, 8), at};
  const auto agrees = [](std::uint64_t narrow, std::uint64_t wide, std::uint64_t full) {
    return narrow == wide || narrow == full;
  };
  if (!agrees(small.offset, large.offset, kZipFull32) || !agrees(small.bytes, large.bytes, kZipFull32) ||
      !agrees(small.members, large.members, kZipFull16) || number_at(file, at + 24, 8) != large.members) {
    return zip_failure("its two end records disagree");
  }
  return large;
}

Result<ZipDirectory> find_directory(std::string_view file) {
  const auto end = find_end_record(file);
  if (!end) return zip_failure("it has no end record: it is cut short");
  if (number_at(file, *end + 4, 2) != 0 || number_at(file, *end + 6, 2) != 0 ||
      number_at(file, *end + 8, 2) != number_at(file, *end + 10, 2)) {
    return zip_failure("it is one part of a multi-part archive");
  }
  ZipDirectory directory{number_at(file, *end + 16, 4), number_at(file, *end + 12, 4), number_at(file, *end + 10, 2),
                         *end};
  if (*end >= kZipLocatorBytes && number_at(file, *end - kZipLocatorBytes, 4) == kZipLocator) {
    auto large = read_end64(file, *end, directory);
    if (!large) return large;
    directory = *large;
  }
  if (directory.offset > directory.end || directory.bytes != directory.end - directory.offset) {
    return zip_failure(fmt::format("its directory is at byte {} with {} bytes but should end at byte {}",
                                   directory.offset, directory.bytes, directory.end));
  }
  return directory;
}

/// A colon is allowed, because torch.save puts the file's own name in front of each member's. No member's name is ever
/// used as a path.
bool is_safe_name(std::string_view name) {
  const auto is_refused = [](unsigned char c) { return c < 0x20 || c == 0x7F || c == '\\'; };
  if (name.empty() || name.front() == '/' || std::any_of(name.begin(), name.end(), is_refused)) return false;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t slash = std::min(name.find('/', at), name.size());
    if (name.substr(at, slash - at) == "..") return false;
    at = slash + 1;
  }
  return true;
}

/// Reads the 64-bit numbers of an extra field, in order, into those of `fields` in which all bits are set.
bool widen(std::string_view extra, std::initializer_list<std::uint64_t*> fields) {
  const auto is_full = [](const std::uint64_t* field) { return *field == kZipFull32; };
  if (std::none_of(fields.begin(), fields.end(), is_full)) return true;
  while (extra.size() >= 4) {
    const std::uint64_t size = number_at(extra, 2, 2);
    if (size > extra.size() - 4) return false;
    std::string_view content = extra.substr(4, size);
    if (number_at(extra, 0, 2) == kZipExtra64) {
      for (std::uint64_t* field : fields) {
        if (!is_full(field)) continue;
        if (content.size() < 8) return false;
        *field = number_at(content, 0, 8);
        content.remove_prefix(8);
      }
      return true;
    }
    extra.remove_prefix(4 + size);
  }
  return false;
}

/// A directory entry, with its size in the directory.
struct ZipEntry {
  ZipMember member;
  std::uint64_t flags = 0;
  std::uint64_t method = 0;
  std::uint64_t length = 0;
};

Result<ZipEntry> read_entry(std::string_view directory) {
  if (directory.size() < kZipEntryBytes || number_at(directory, 0, 4) != kZipEntry) {
    return zip_failure("its directory is cut short or holds something else");
  }
  const std::uint64_t name = number_at(directory, 28, 2);
  const std::uint64_t extra = number_at(directory, 30, 2);
  ZipEntry entry{{}, number_at(directory, 8, 2), number_at(directory, 10, 2), 0};
  entry.length = kZipEntryBytes + name + extra + number_at(directory, 32, 2);
  if (entry.length > directory.size()) return zip_failure("its directory is cut short");
  ZipMember& member = entry.member;
  member.name = directory.substr(kZipEntryBytes, name);
  member.crc = static_cast<std::uint32_t>(number_at(directory, 16, 4));
  member.stored = number_at(directory, 20, 4);
  member.bytes = number_at(directory, 24, 4);
  member.header = number_at(directory, 42, 4);
  member.deflated = entry.method == kZipDeflated;
  if (!is_safe_name(member.name)) {
    return zip_failure(fmt::format("a member has the invalid name {}", text::json_quote(member.name)));
  }
  if (!widen(directory.substr(kZipEntryBytes + name, extra), {&member.bytes, &member.stored, &member.header})) {
    return zip_failure(fmt::format("'{}' lacks its 64-bit sizes", member.name));
  }
  if ((entry.flags & kZipEncrypted) != 0) return Failure{fmt::format("'{}' is encrypted", member.name)};
  if (entry.method != kZipStored && entry.method != kZipDeflated) {
    return Failure{fmt::format("'{}' is compressed by method {}; only 0 (none) and 8 (deflate) can be read",
                               member.name, entry.method)};
  }
  if (!member.deflated && member.stored != member.bytes) {
    return zip_failure(
        fmt::format("'{}' is not compressed and has {} bytes instead of {}", member.name, member.stored, member.bytes));
  }
  if (member.deflated && member.bytes / kDeflateMostRatio > member.stored) {
    return zip_failure(fmt::format("'{}' is said to unpack from {} bytes to {}, more than deflate can", member.name,
                                   member.stored, member.bytes));
  }
  return entry;
}

/// Finds the member's bytes. Its local header must agree with the directory, or leave the numbers out.
std::string read_local(std::string_view file, const ZipDirectory& directory, ZipEntry& entry) {
  ZipMember& member = entry.member;
  if (member.header > directory.offset || directory.offset - member.header < kZipLocalBytes ||
      number_at(file, member.header, 4) != kZipLocal) {
    return fmt::format("the header of '{}' is not at byte {}", member.name, member.header);
  }
  const std::string_view header = file.substr(member.header);
  const std::uint64_t name = number_at(header, 26, 2);
  const std::uint64_t extra = number_at(header, 28, 2);
  member.offset = member.header + kZipLocalBytes + name + extra;
  if (member.offset > directory.offset || directory.offset - member.offset < member.stored) {
    return fmt::format("'{}' has {} bytes from byte {}, but the directory is at byte {}", member.name, member.stored,
                       member.offset, directory.offset);
  }
  std::uint64_t stored = number_at(header, 18, 4);
  std::uint64_t bytes = number_at(header, 22, 4);
  const std::uint64_t flags = number_at(header, 6, 2);
  const bool widened = widen(header.substr(kZipLocalBytes + name, extra), {&bytes, &stored});
  const bool has_sizes = (flags & kZipSizesFollow) == 0;
  const bool same = header.substr(kZipLocalBytes, name) == member.name && number_at(header, 8, 2) == entry.method &&
                    (flags & kZipEncrypted) == 0;
  const bool sizes = !has_sizes || (widened && stored == member.stored && bytes == member.bytes &&
                                    number_at(header, 14, 4) == member.crc);
  return same && sizes ? "" : fmt::format("the header of '{}' and the directory disagree", member.name);
}

/// Sorts the members by offset. Returns "" if members do not overlap and no name is repeated.
std::string check_members(std::vector<ZipMember>& members) {
  std::sort(members.begin(), members.end(), [](const ZipMember& a, const ZipMember& b) { return a.header < b.header; });
  std::set<std::string_view> names;
  const ZipMember* before = nullptr;
  for (const ZipMember& member : members) {
    if (!names.insert(member.name).second) return fmt::format("'{}' occurs twice", member.name);
    if (before != nullptr && member.header < before->offset + before->stored) {
      return fmt::format("'{}' and '{}' overlap", before->name, member.name);
    }
    before = &member;
  }
  return "";
}

}  // namespace

bool is_zip(std::string_view file) {
  return file.size() >= 4 && (number_at(file, 0, 4) == kZipLocal || number_at(file, 0, 4) == kZipEnd);
}

bool has_zip_end(std::string_view end) { return find_end_record(end).has_value(); }

Result<std::vector<ZipMember>> parse_zip(std::string_view file) {
  const auto directory = find_directory(file);
  if (!directory) return Failure{directory.error()};
  if (directory->members > directory->bytes / kZipEntryBytes) return zip_failure("its directory lacks members");
  std::vector<ZipMember> members;
  std::string_view rest = file.substr(directory->offset, directory->bytes);
  for (std::uint64_t i = 0; i < directory->members; ++i) {
    auto entry = read_entry(rest);
    if (!entry) return Failure{entry.error()};
    if (const std::string problem = read_local(file, *directory, *entry); !problem.empty()) return zip_failure(problem);
    rest.remove_prefix(entry->length);
    members.push_back(std::move(entry->member));
  }
  if (!rest.empty()) return zip_failure("its directory has extra bytes after its members");
  if (const std::string problem = check_members(members); !problem.empty()) return zip_failure(problem);
  return members;
}

std::string_view stored_bytes(std::string_view file, const ZipMember& member) {
  return file.substr(member.offset, member.stored);
}

}  // namespace lockstep::checkpoint
