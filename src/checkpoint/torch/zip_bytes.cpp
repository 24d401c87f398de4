// SPDX-License-Identifier: Apache-2.0
// Unpacks the members of a zip file, and verifies their checksums.
#include <fmt/format.h>
#include <libdeflate.h>
#include <zlib.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "checkpoint/torch/zip_parse.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kInflateBlock = 1U << 16U;

/// A deflated stream that is unpacked in pieces, with zlib.
class InflateStream {
 public:
  explicit InflateStream(std::string_view packed) : rest_(packed) {
    ready_ = inflateInit2(&stream_, -MAX_WBITS) == Z_OK;  // a negative value selects raw deflate, without zlib's header
  }
  ~InflateStream() {
    if (ready_) inflateEnd(&stream_);
  }
  InflateStream(const InflateStream&) = delete;
  InflateStream& operator=(const InflateStream&) = delete;

  /// Unpacks up to `size` bytes into `out`, and returns their number.
  std::size_t next(char* out, std::size_t size) {
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(size);
    while (ready_ && code_ == Z_OK && stream_.avail_out > 0) {
      const std::size_t piece = std::min<std::size_t>(rest_.size(), std::numeric_limits<uInt>::max());
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest_.data()));
      stream_.avail_in = static_cast<uInt>(piece);
      code_ = inflate(&stream_, Z_NO_FLUSH);
      rest_.remove_prefix(piece - stream_.avail_in);
    }
    return size - stream_.avail_out;
  }

  /// Returns true if the stream has ended and all packed bytes were used.
  [[nodiscard]] bool complete() const { return code_ == Z_STREAM_END && rest_.empty(); }

 private:
  z_stream stream_{};
  bool ready_ = false;
  int code_ = Z_OK;
  std::string_view rest_;
};

constexpr const char* kDamagedStream = "its packed bytes are damaged";

std::string check_size(const ZipMember& member, std::uint64_t found, bool complete) {
  if (complete && found == member.bytes) return "";
  if (found <= member.bytes) return kDamagedStream;
  return fmt::format("it unpacks to more than the {} bytes that the zip file declares", member.bytes);
}

}  // namespace

std::uint32_t zip_crc(std::string_view bytes, std::uint32_t before) {
  return libdeflate_crc32(before, bytes.data(), bytes.size());
}

std::string check_member(std::string_view file, const ZipMember& member) {
  std::uint32_t crc = 0;
  if (!member.deflated) {
    crc = zip_crc(stored_bytes(file, member));
  } else {
    InflateStream stream(stored_bytes(file, member));
    std::vector<char> block(kInflateBlock);
    std::uint64_t total = 0;
    while (const std::size_t got = stream.next(block.data(), block.size())) {
      total += got;
      if (total > member.bytes) break;
      crc = zip_crc({block.data(), got}, crc);
    }
    if (std::string problem = check_size(member, total, stream.complete()); !problem.empty()) return problem;
  }
  if (crc == member.crc) return "";
  return fmt::format("its bytes have CRC-32 {:08x}, but the zip file says {:08x}", crc, member.crc);
}

Result<std::string> inflate_member(std::string_view file, const ZipMember& member, std::uint64_t limit) {
  if (member.bytes > limit) {
    return Failure{fmt::format("'{}' unpacks from {} bytes to {}, more than the limit of {}", member.name,
                               member.stored, member.bytes, limit)};
  }
  InflateStream stream(stored_bytes(file, member));
  std::string out;
  // The memory grows with the unpacked bytes, so that a wrong size in the directory cannot cause a large allocation.
  while (out.size() <= member.bytes) {
    const std::size_t before = out.size();
    out.resize(before +
               std::min<std::uint64_t>(std::max<std::uint64_t>(before, kInflateBlock), member.bytes + 1 - before));
    const std::size_t got = stream.next(out.data() + before, out.size() - before);
    out.resize(before + got);
    if (got == 0 || stream.complete()) break;
  }
  const std::string problem = check_size(member, out.size(), stream.complete());
  if (!problem.empty()) return Failure{fmt::format("'{}': {}", member.name, problem)};
  return out;
}

}  // namespace lockstep::checkpoint
