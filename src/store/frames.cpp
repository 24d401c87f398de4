// SPDX-License-Identifier: Apache-2.0
#include "store/frames.h"

#include <algorithm>
#include <utility>

namespace lockstep::store {
namespace {

// Memory is allocated as bytes arrive, not according to the header's length. After a large frame it is freed.
constexpr std::size_t kPiece = 1U << 20U;

// If memory runs out during a step, only this connection ends, so that its client does not wait for a reply.
template <class Step, class Lost>
void guarded(Step&& step, Lost&& lost) {
  try {
    step();
  } catch (const std::exception&) {
    lost();
  }
}

}  // namespace

void Frames::read(std::uint32_t limit, Reader on_frame) {
  stream_.read(asio::buffer(header_), [this, limit, on_frame = std::move(on_frame)](std::error_code problem, auto) {
    if (problem) return on_frame(Read::kEnded, "");
    const std::uint32_t length = read_length(header_);
    if (length == 0 || length > limit) return on_frame(Read::kTooLong, "");
    body_.clear();
    guarded([&] { read_more(0, length, on_frame); }, [&] { on_frame(Read::kNoMemory, ""); });
  });
}

void Frames::read_more(std::size_t have, std::uint32_t length, Reader on_frame) {
  const std::size_t wanted = std::min<std::size_t>(length, have + kPiece);
  body_.resize(wanted);
  if (!may_hold_(bytes())) return on_frame(Read::kNoMemory, "");
  const auto place = asio::buffer(body_.data() + have, wanted - have);
  stream_.read(place, [this, wanted, length, on_frame = std::move(on_frame)](std::error_code problem, auto) {
    if (problem) return on_frame(Read::kEnded, "");
    if (wanted < length) {
      return guarded([&] { read_more(wanted, length, on_frame); }, [&] { on_frame(Read::kNoMemory, ""); });
    }
    on_frame(Read::kBody, body_);
    release(body_);
  });
}

// Frees a buffer after a large frame. Reports it, or the connection would count for bytes that it no longer holds.
void Frames::release(std::string& buffer) {
  if (buffer.capacity() <= kPiece) return;
  std::string().swap(buffer);
  (void)may_hold_(bytes());
}

bool Frames::send(const std::string& frame, std::function<void()> on_end) {
  // Without this limit, a client that sends requests and never reads could exhaust the memory.
  if (queued_.size() + frame.size() > 2 * std::size_t{kMaxFrameBytes}) return false;
  queued_ += frame;
  if (!may_hold_(bytes())) return false;
  if (sending_.empty()) write_queued(std::move(on_end));
  return true;
}

void Frames::write_queued(std::function<void()> on_end) {
  std::swap(sending_, queued_);
  stream_.write(asio::buffer(sending_), [this, on_end = std::move(on_end)](std::error_code problem, auto) {
    sending_.clear();
    release(sending_);
    if (problem || (closes_after_send_ && queued_.empty())) return on_end();
    if (!queued_.empty()) guarded([&] { write_queued(on_end); }, on_end);
  });
}

}  // namespace lockstep::store
