// SPDX-License-Identifier: Apache-2.0
#include "wire/frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/wire/circle.h"

namespace lockstep::wire {
namespace {

constexpr std::uint32_t kFrameMagic = 0x4652534C;  // "LSRF"
constexpr std::size_t kBuffer = std::size_t{64} << 10;
// The maximum number of bytes to move in one direction before the other direction's turn: this many bytes are still in
// a cache when the kernel copies them again, and when they are reduced. A plain copy of 100 MiB in both directions took
// 65 ms with 256 KiB and 74 ms with 1 MiB or more.
constexpr std::size_t kAtOnce = std::size_t{256} << 10;
constexpr std::size_t kSegmentsAtOnce = 16;

template <class Number>
void put(std::byte* to, Number number) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) to[i] = static_cast<std::byte>((number >> (8 * i)) & 0xFFU);
}

template <class Number>
Number get(const std::byte* from) {
  Number number = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) number |= static_cast<Number>(from[i]) << (8 * i);
  return number;
}

}  // namespace

std::array<std::byte, FrameHeader::kBytes> write_header(const FrameHeader& header) {
  std::array<std::byte, FrameHeader::kBytes> bytes{};
  put(bytes.data(), kFrameMagic);
  put(bytes.data() + 4, header.number);
  put(bytes.data() + 8, header.bytes);
  return bytes;
}

std::optional<FrameHeader> read_header(const std::byte* bytes) {
  if (get<std::uint32_t>(bytes) != kFrameMagic) return std::nullopt;
  return FrameHeader{get<std::uint32_t>(bytes + 4), get<std::uint64_t>(bytes + 8)};
}

void FrameSender::add(const std::byte* data, std::size_t bytes) {
  headers_.push_back(write_header({messages_++, bytes}));
  outgoing_.push_back({headers_.back().data(), FrameHeader::kBytes});
  outgoing_.push_back({data, bytes});
}

bool FrameSender::step(Stream& stream) {
  std::size_t taken = 0;
  if (!outgoing_.empty()) {
    taken = stream.write(next_segments());
    drop_sent(taken);
  }
  is_flushed_ = stream.flush();
  return taken > 0;
}

std::vector<Segment> FrameSender::next_segments() const {
  std::vector<Segment> segments;
  std::size_t left = kAtOnce;
  for (const Segment& segment : outgoing_) {
    if (segments.size() == kSegmentsAtOnce || left == 0) break;
    segments.push_back({segment.data, std::min(segment.bytes, left)});
    left -= segments.back().bytes;
  }
  return segments;
}

void FrameSender::drop_sent(std::size_t bytes) {
  while (bytes > 0) {
    Segment& front = outgoing_.front();
    const std::size_t some = std::min(bytes, front.bytes);
    front.data += some;
    front.bytes -= some;
    bytes -= some;
    if (front.bytes > 0) return;
    if (header_is_next_) headers_.pop_front();
    header_is_next_ = !header_is_next_;
    outgoing_.pop_front();
  }
}

FrameReceiver::FrameReceiver() : buffer_(new std::byte[kBuffer]) {}

void FrameReceiver::expect(std::byte* data, std::size_t bytes) { awaited_.push_back({data, bytes, 0}); }

bool FrameReceiver::step(Stream& stream) {
  bool has_moved = false;
  while (!awaited_.empty()) {
    if (take_buffered()) {
      has_moved = true;
      continue;
    }
    const std::size_t before = received_;
    if (read(stream, awaited_.front()) == 0) break;
    has_moved = true;
    if (received_ - before >= kAtOnce) break;  // lets the caller reduce the bytes that have arrived
  }
  return has_moved;
}

/// Reads the rest of a message if its header has arrived, otherwise a header; also reads the bytes after it.
std::size_t FrameReceiver::read(Stream& stream, Incoming& message) {
  if (begin_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
  }
  const std::size_t missing = message.bytes - message.have;
  const std::size_t rest = has_header_ ? std::min(missing, kAtOnce) : 0;
  const bool is_all = !has_header_ || rest == missing;
  const Room behind{buffer_.get() + end_, is_all ? kBuffer - end_ : 0};
  const std::size_t got = stream.read({message.data + message.have, rest}, behind);
  const std::size_t own = std::min(got, rest);
  message.have += own;
  received_ += own;
  end_ += got - own;
  if (has_header_ && message.have == message.bytes) finish_message();
  return got;
}

/// Takes the bytes of the first awaited message from the buffer. Returns true if there were any.
bool FrameReceiver::take_buffered() {
  Incoming& message = awaited_.front();
  if (!has_header_ && !take_header(message)) return false;
  const std::size_t some = std::min(end_ - begin_, message.bytes - message.have);
  if (some > 0) std::memcpy(message.data + message.have, buffer_.get() + begin_, some);
  begin_ += some;
  message.have += some;
  received_ += some;
  if (message.have < message.bytes) return some > 0;
  finish_message();
  return true;
}

bool FrameReceiver::take_header(const Incoming& message) {
  if (end_ - begin_ < FrameHeader::kBytes) return false;
  const auto header = read_header(buffer_.get() + begin_);
  if (!header || header->number != messages_) throw ConnectionLost("the other end sent data that is not a message");
  if (header->bytes != message.bytes) {
    throw WrongLength(
        fmt::format("a message of {} bytes arrived instead of one of {} bytes", header->bytes, message.bytes));
  }
  begin_ += FrameHeader::kBytes;
  ++messages_;
  has_header_ = true;
  return true;
}

void FrameReceiver::finish_message() {
  awaited_.pop_front();
  has_header_ = false;
}

}  // namespace lockstep::wire
