// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch/zip_write.h"

#include <utility>

#include "checkpoint/formats/little_endian.h"
#include "checkpoint/torch/zip_layout.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::uint64_t kZipAlignment = 64;
constexpr std::uint64_t kZipPadding = 0x4246;  // "FB": the extra field that PyTorch uses as padding
constexpr std::uint64_t kZipVersion = 20;      // the version of the format that a reader needs
constexpr std::uint64_t kZipVersion64 = 45;    // the version with 64-bit sizes
constexpr std::uint64_t kZipFirstDate = 0x21;  // 1980-01-01: equal content gives equal files

/// A record that is made of consecutive fields.
class ZipRecord {
 public:
  ZipRecord& add(std::uint64_t value, std::size_t bytes) {
    append_little_endian(bytes_, value, bytes);
    return *this;
  }
  ZipRecord& add(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace

ZipWriter::ZipWriter(std::unique_ptr<WritableFile> file, std::uint64_t wide_from)
    : file_(std::move(file)), wide_from_(wide_from) {}

void ZipWriter::write(std::string_view bytes) {
  if (!bytes.empty()) file_->append(bytes.data(), bytes.size());
  at_ += bytes.size();
}

void ZipWriter::add(const std::string& name, std::string_view bytes) {
  ZipMember member{name, at_, 0, bytes.size(), bytes.size(), zip_crc(bytes), false};
  const bool wide = is_wide(bytes.size());
  ZipRecord extra;
  if (wide) extra.add(kZipExtra64, 2).add(16, 2).add(bytes.size(), 8).add(bytes.size(), 8);
  const std::uint64_t start = at_ + kZipLocalBytes + name.size() + extra.bytes().size() + 4;
  const std::uint64_t padding = (kZipAlignment - start % kZipAlignment) % kZipAlignment;
  extra.add(kZipPadding, 2).add(padding, 2).add(std::string(padding, 'Z'));
  const std::uint64_t size = wide ? kZipFull32 : bytes.size();
  ZipRecord header;
  header.add(kZipLocal, 4).add(wide ? kZipVersion64 : kZipVersion, 2).add(kZipUtf8Names, 2).add(kZipStored, 2);
  header.add(0, 2).add(kZipFirstDate, 2).add(member.crc, 4).add(size, 4).add(size, 4);
  header.add(name.size(), 2).add(extra.bytes().size(), 2).add(name).add(extra.bytes());
  write(header.bytes());
  write(bytes);
  members_.push_back(std::move(member));
}

std::string ZipWriter::entry_of(const ZipMember& member) const {
  const bool wide_size = is_wide(member.bytes);
  const bool wide_place = is_wide(member.header);
  ZipRecord extra;
  if (wide_size || wide_place) {
    extra.add(kZipExtra64, 2).add((wide_size ? 16 : 0) + (wide_place ? 8 : 0), 2);
    if (wide_size) extra.add(member.bytes, 8).add(member.bytes, 8);
    if (wide_place) extra.add(member.header, 8);
  }
  const std::uint64_t size = wide_size ? kZipFull32 : member.bytes;
  const std::uint64_t version = wide_size || wide_place ? kZipVersion64 : kZipVersion;
  ZipRecord entry;
  entry.add(kZipEntry, 4).add(version, 2).add(version, 2).add(kZipUtf8Names, 2).add(kZipStored, 2).add(0, 2);
  entry.add(kZipFirstDate, 2).add(member.crc, 4).add(size, 4).add(size, 4);
  entry.add(member.name.size(), 2).add(extra.bytes().size(), 2).add(0, 2).add(0, 2).add(0, 2).add(0, 4);
  entry.add(wide_place ? kZipFull32 : member.header, 4).add(member.name).add(extra.bytes());
  return entry.bytes();
}

void ZipWriter::finish() {
  const std::uint64_t directory = at_;
  for (const ZipMember& member : members_) write(entry_of(member));
  const std::uint64_t end = at_;
  const std::uint64_t count = members_.size();
  if (is_wide(end) || count >= kZipFull16) {
    ZipRecord wide;
    wide.add(kZipEnd64, 4).add(kZipEnd64Bytes - 12, 8).add(kZipVersion64, 2).add(kZipVersion64, 2).add(0, 4).add(0, 4);
    wide.add(count, 8).add(count, 8).add(end - directory, 8).add(directory, 8);
    wide.add(kZipLocator, 4).add(0, 4).add(end, 8).add(1, 4);
    write(wide.bytes());
  }
  const auto narrow = [this](std::uint64_t number) { return is_wide(number) ? kZipFull32 : number; };
  const std::uint64_t narrow_count = count >= kZipFull16 ? kZipFull16 : count;
  ZipRecord last;
  last.add(kZipEnd, 4).add(0, 2).add(0, 2).add(narrow_count, 2).add(narrow_count, 2);
  last.add(narrow(end - directory), 4).add(narrow(directory), 4).add(0, 2);
  write(last.bytes());
  file_->sync();
}

}  // namespace lockstep::checkpoint
