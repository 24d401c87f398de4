// SPDX-License-Identifier: Apache-2.0
#include "data/sources/idx/idx_parse.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace lockstep::data {
namespace {

constexpr std::size_t kMaxDimensions = 8;
constexpr std::int64_t kMostInflated = 1040;  // maximum bytes that one deflated byte yields, rounded up

/// Reads the file's bytes piece by piece, and inflates them if the file is gzipped.
class IdxBytes {
 public:
  explicit IdxBytes(std::string_view file) : file_(file), gzip_(file.starts_with("\x1f\x8b")) {
    if (!gzip_) return;
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(file.data()));
    started_ = inflateInit2(&stream_, 15 + 16) == Z_OK;
  }
  ~IdxBytes() {
    if (started_) inflateEnd(&stream_);
  }
  IdxBytes(const IdxBytes&) = delete;
  IdxBytes& operator=(const IdxBytes&) = delete;

  // Reads up to `size` bytes, and returns how many.
  std::size_t read(char* to, std::size_t size) { return gzip_ ? inflated(to, size) : plain(to, size); }

  // Returns true after the end has been read, if the file is plain or its gzip checksum is right.
  [[nodiscard]] bool intact() const noexcept { return !gzip_ || finished_; }

  // Returns an upper bound on the bytes that can be read.
  [[nodiscard]] std::int64_t bound() const {
    return static_cast<std::int64_t>(file_.size()) * (gzip_ ? kMostInflated : 1);
  }

 private:
  std::size_t plain(char* to, std::size_t size) {
    const std::size_t part = std::min(size, file_.size() - at_);
    std::copy_n(file_.data() + at_, part, to);
    at_ += part;
    return part;
  }

  std::size_t inflated(char* to, std::size_t size) {
    constexpr std::size_t kPiece = std::size_t{1} << 30;  // zlib counts in 32 bits
    std::size_t have = 0;
    while (started_ && !ended_ && have < size) {
      const std::size_t piece = std::min(size - have, kPiece);
      stream_.next_out = reinterpret_cast<Bytef*>(to + have);
      stream_.avail_out = static_cast<uInt>(piece);
      const std::size_t input = std::min(file_.size() - at_, kPiece);
      stream_.avail_in = static_cast<uInt>(input);
      const int code = inflate(&stream_, Z_NO_FLUSH);
      at_ += input - stream_.avail_in;
      const std::size_t made = piece - stream_.avail_out;
      have += made;
      finished_ = code == Z_STREAM_END;
      ended_ = code != Z_OK || (made == 0 && at_ == file_.size());
    }
    return have;
  }

  std::string_view file_;
  bool gzip_ = false;
  bool started_ = false;
  bool ended_ = false;
  bool finished_ = false;  // the stream has ended, and zlib has checked it
  std::size_t at_ = 0;
  z_stream stream_{};
};

bool is_type(std::uint8_t code) { return code == 8 || code == 9 || (code >= 0x0B && code <= 0x0E); }

// Converts from the file's big-endian order.
void to_machine_order(std::string& bytes, std::int64_t size) {
  for (std::size_t at = 0; size > 1 && at < bytes.size(); at += static_cast<std::size_t>(size)) {
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                 bytes.begin() + static_cast<std::ptrdiff_t>(at) + size);
  }
}

Result<std::vector<std::int64_t>> read_shape(IdxBytes& bytes, std::size_t dimensions) {
  std::vector<std::int64_t> shape;
  for (std::size_t i = 0; i < dimensions; ++i) {
    std::array<char, 4> raw{};
    if (bytes.read(raw.data(), 4) != 4) return Failure{fmt::format("byte {}: cut short in the header", 4 + 4 * i)};
    std::int64_t side = 0;
    for (const char byte : raw) side = side << 8 | static_cast<unsigned char>(byte);
    shape.push_back(side);
  }
  return shape;
}

// Returns what is wrong after the last element, at byte `at`; empty if nothing is.
std::string wrong_end(IdxBytes& bytes, std::size_t at) {
  if (char extra = 0; bytes.read(&extra, 1) != 0) return fmt::format("byte {}: more data than the header states", at);
  if (bytes.intact()) return {};
  return fmt::format(
      "byte {}: damaged gzip data: its checksum differs, or its end is missing; copy or download the file again", at);
}

}  // namespace

Result<IdxFile> parse_idx(std::string_view file) {
  IdxBytes bytes(file);
  std::array<char, 4> magic{};
  if (bytes.read(magic.data(), 4) != 4) return Failure{"byte 0: not an IDX file"};
  const auto type = static_cast<std::uint8_t>(magic[2]);
  const auto dimensions = static_cast<std::uint8_t>(magic[3]);
  if (magic[0] != 0 || magic[1] != 0 || !is_type(type)) return Failure{"byte 0: not an IDX file"};
  if (dimensions < 1 || dimensions > kMaxDimensions) return Failure{fmt::format("byte 3: {} dimensions", dimensions)};
  Result<std::vector<std::int64_t>> shape = read_shape(bytes, dimensions);
  if (!shape) return Failure{shape.error()};
  IdxFile idx{static_cast<IdxType>(type), std::move(shape).value(), {}};
  const std::int64_t most = std::min(kMaxIdxBytes, bytes.bound());
  std::int64_t size = idx_bytes(idx.type);
  for (const std::int64_t side : idx.shape) {
    if (side > 0 && size > most / side) {
      return Failure{fmt::format("byte 4: the header states more than the file can hold ({} bytes)", most)};
    }
    size *= side;
  }
  idx.bytes.resize(static_cast<std::size_t>(size));
  const std::size_t got = bytes.read(idx.bytes.data(), idx.bytes.size());
  const std::size_t head = 4 + 4 * std::size_t{dimensions};
  if (got != idx.bytes.size())
    return Failure{fmt::format("byte {}: cut short; {} bytes should follow the header", head + got, size)};
  if (std::string wrong = wrong_end(bytes, head + got); !wrong.empty()) return Failure{std::move(wrong)};
  to_machine_order(idx.bytes, idx_bytes(idx.type));
  return idx;
}

}  // namespace lockstep::data
