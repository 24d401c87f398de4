// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/shm/channel.h"

#include <algorithm>
#include <cstring>

#include "comm/backends/shm/futex.h"
#include "lockstep/base/awake_clock.h"
#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

// As in barrier.cpp, this interval bounds the delay if the rank that should wake this one died.
constexpr auto kChannelSlice = std::chrono::milliseconds(50);
constexpr int kSpins = 200;

/// The values on which sender and receiver must agree.
Descriptor header_of(const Collective& message) {
  Descriptor header = message.call;
  header.kind = Kind::kSend;
  header.root = 0;
  return header;
}

}  // namespace

ShmChannel::ShmChannel(std::shared_ptr<Segment> segment, const World& world, int peer, bool sending)
    : segment_(std::move(segment)),
      health_(segment_, world),
      rank_(world.rank),
      peer_(peer),
      sending_(sending),
      slot_(sending ? segment_->pair(world.rank, peer) : segment_->pair(peer, world.rank)) {
  if (!sending) return;
  const std::byte* memory = segment_->allocate(kRingBytes);
  slot_.ring.store(1 + segment_->offset_of(memory, kRingBytes), std::memory_order_release);
}

void ShmChannel::run(const Collective& message) {
  health_.check(message);
  const Descriptor own_header = header_of(message);
  if (sending_) {
    write(reinterpret_cast<const std::byte*>(&own_header), sizeof(own_header), message);
    return write(message.data, message.bytes, message);
  }
  Descriptor other_call;
  read(reinterpret_cast<std::byte*>(&other_call), sizeof(other_call), message);
  if (other_call != own_header) health_.fail_mismatch(message, peer_, other_call);
  read(message.output, message.bytes, message);
}

void ShmChannel::abort(const std::string& reason) noexcept { segment_->fail(FailureKind::kFailed, rank_, reason); }

std::byte* ShmChannel::ring() const noexcept {
  const std::uint64_t offset = slot_.ring.load(std::memory_order_acquire) - 1;
  return segment_->region(sending_ ? rank_ : peer_) + offset;
}

std::uint32_t ShmChannel::ready_bytes() const noexcept {
  // seq_cst pairs with the store of the other side: either the sleeper sees the bytes or the other sees the sleeper.
  const std::uint32_t used = slot_.written.load(std::memory_order_seq_cst) - slot_.read.load(std::memory_order_seq_cst);
  return sending_ ? kRingBytes - used : used;
}

std::uint32_t ShmChannel::wait_for_bytes(const Collective& message) {
  for (int i = 0; i < kSpins && ready_bytes() == 0; ++i) spin_pause();
  if (ready_bytes() == 0) sleep_until_ready(message);
  const std::atomic<std::uint32_t>& place = sending_ ? slot_.written : slot_.read;
  return std::min(ready_bytes(), kRingBytes - place.load(std::memory_order_relaxed) % kRingBytes);
}

void ShmChannel::sleep_until_ready(const Collective& message) {
  std::atomic<std::uint32_t>& word = sending_ ? slot_.read : slot_.written;
  std::atomic<std::uint32_t>& waits = sending_ ? slot_.writer_waits : slot_.reader_waits;
  waits.store(1, std::memory_order_seq_cst);
  while (ready_bytes() == 0) {
    const TimePoint now = AwakeClock::instance().now();
    const bool gone = health_.has_left(peer_) && ready_bytes() == 0;
    if (gone || now >= end_of(message) || health_.failed()) break;
    const std::uint32_t seen = word.load(std::memory_order_seq_cst);
    if (ready_bytes() != 0) break;
    futex_wait(word, seen, std::min<std::chrono::nanoseconds>(kChannelSlice, end_of(message) - now));
  }
  waits.store(0, std::memory_order_seq_cst);
  if (ready_bytes() != 0) return;
  health_.check(message);
  if (health_.has_left(peer_)) health_.fail_left(peer_, message);
  health_.fail_timeout(message, {{peer_, ""}});
}

void ShmChannel::write(const std::byte* data, std::size_t bytes, const Collective& message) {
  while (bytes > 0) {
    const std::size_t count = std::min<std::size_t>(bytes, wait_for_bytes(message));
    const std::uint32_t written = slot_.written.load(std::memory_order_relaxed);
    std::memcpy(ring() + written % kRingBytes, data, count);
    slot_.written.store(written + static_cast<std::uint32_t>(count), std::memory_order_seq_cst);
    if (slot_.reader_waits.load(std::memory_order_seq_cst) != 0) futex_wake(slot_.written);
    data += count;
    bytes -= count;
  }
}

void ShmChannel::read(std::byte* data, std::size_t bytes, const Collective& message) {
  while (bytes > 0) {
    const std::size_t count = std::min<std::size_t>(bytes, wait_for_bytes(message));
    const std::uint32_t read = slot_.read.load(std::memory_order_relaxed);
    std::memcpy(data, ring() + read % kRingBytes, count);
    slot_.read.store(read + static_cast<std::uint32_t>(count), std::memory_order_seq_cst);
    if (slot_.writer_waits.load(std::memory_order_seq_cst) != 0) futex_wake(slot_.read);
    data += count;
    bytes -= count;
  }
}

}  // namespace lockstep::comm
