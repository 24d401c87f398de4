// SPDX-License-Identifier: Apache-2.0
// Sends and receives messages as frames: a 16-byte header with number and length, then the bytes of the message,
// directly from or into the caller's memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "wire/stream.h"

namespace lockstep::wire {

/// The header of a message.
struct FrameHeader {
  static constexpr std::size_t kBytes = 16;
  std::uint32_t number = 0;  ///< number of the message in its direction, from 0; wraps around at 2^32
  std::uint64_t bytes = 0;

  bool operator==(const FrameHeader&) const = default;
};

[[nodiscard]] std::array<std::byte, FrameHeader::kBytes> write_header(const FrameHeader& header);
/// Returns the header; none if the bytes are not a header.
[[nodiscard]] std::optional<FrameHeader> read_header(const std::byte* bytes);

/// The messages to send.
class FrameSender {
 public:
  /// `data` must live until is_done().
  void add(const std::byte* data, std::size_t bytes);
  /// Sends as much as possible without waiting. Returns true if any bytes were sent. Throws: ConnectionLost.
  bool step(Stream& stream);
  [[nodiscard]] bool is_done() const noexcept { return outgoing_.empty() && is_flushed_; }

 private:
  [[nodiscard]] std::vector<Segment> next_segments() const;
  void drop_sent(std::size_t bytes);

  std::deque<std::array<std::byte, FrameHeader::kBytes>> headers_;
  std::deque<Segment> outgoing_;  // header, bytes, header, bytes, ...
  bool header_is_next_ = true;
  bool is_flushed_ = true;
  std::uint32_t messages_ = 0;
};

/// The messages to receive.
class FrameReceiver {
 public:
  FrameReceiver();

  /// Receives the next message into `data`.
  void expect(std::byte* data, std::size_t bytes);
  /// Receives some of the bytes that have arrived. Returns true if there were any. Throws: ConnectionLost if they are
  /// not a message, WrongLength if the message's length differs from the expected one.
  bool step(Stream& stream);
  [[nodiscard]] bool is_done() const noexcept { return awaited_.empty(); }

  /// Returns the number of bytes of expected messages that have arrived since the last start().
  [[nodiscard]] std::size_t received() const noexcept { return received_; }
  void start() noexcept { received_ = 0; }

 private:
  struct Incoming {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    std::size_t have = 0;
  };

  std::size_t read(Stream& stream, Incoming& message);
  bool take_buffered();
  [[nodiscard]] bool take_header(const Incoming& message);
  void finish_message();

  std::deque<Incoming> awaited_;
  bool has_header_ = false;  // the header of awaited_.front() has arrived
  std::uint32_t messages_ = 0;
  std::size_t received_ = 0;
  const std::unique_ptr<std::byte[]> buffer_;  // bytes that were read ahead; unused pages take no memory
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace lockstep::wire
