// SPDX-License-Identifier: Apache-2.0
#include "lockstep/flight/snapshot.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "flight/packed_kind.h"
#include "lockstep/base/printable.h"

namespace lockstep::flight {
namespace {

using std::memory_order_acquire;
using std::memory_order_relaxed;

// The limit on a ring's numbers, nine years in nanoseconds, so that arithmetic on a file's numbers cannot overflow.
constexpr std::int64_t kFar = std::int64_t{1} << 58;

std::int64_t number_of(const std::atomic<std::int64_t>& value) {
  return std::clamp(value.load(memory_order_relaxed), -kFar, kFar);
}

// Returns a string of the ring, sanitized, because a file may contain any bytes.
template <std::size_t Size>
std::string text_of(const char (&text)[Size]) {
  return text::for_people(std::string(text, ::strnlen(text, Size)));
}

std::string name_of(const Ring& ring, std::uint64_t id) {
  if (id >= kNames || ring.names[id].is_ready.load(memory_order_acquire) != 1) return "other";
  return text_of(ring.names[id].text);
}

std::optional<Event> read_event(const Ring& ring, std::uint64_t number) {
  const EventSlot& slot = ring.events[number % kEvents];
  if (slot.stamp.load(memory_order_acquire) != number + 1) return std::nullopt;
  const PackedKind kind = unpack(slot.kind.load(memory_order_relaxed));
  Event event{.number = number,
              .time_ns = number_of(slot.time_ns),
              .type = kind.type,
              .name = name_of(ring, kind.name),
              .sequence = slot.sequence.load(memory_order_relaxed),
              .bytes = slot.bytes.load(memory_order_relaxed),
              .step = number_of(slot.step),
              .group = kind.group,
              .bucket = kind.bucket,
              .buckets = kind.buckets};
  const bool is_section = kind.type == EventType::kSectionBegin || kind.type == EventType::kSectionEnd;
  std::int64_t& other = kind.type == EventType::kCollectiveBegin ? event.called_ns : event.waited_ns;
  (is_section ? event.queued_ns : other) = number_of(slot.other_ns);
  std::atomic_thread_fence(memory_order_acquire);
  if (slot.stamp.load(memory_order_relaxed) != number + 1) return std::nullopt;
  return event;
}

// Reads a lane. A rank that was killed inside begin() leaves an odd version; its data are used anyway.
Lane read_lane(const Ring& ring, int group) {
  const LaneSlot& slot = ring.lanes[static_cast<std::size_t>(group)];
  Lane lane;
  for (int attempt = 0; attempt < 100; ++attempt) {
    const std::uint64_t version = slot.version.load(memory_order_acquire);
    const PackedKind kind = unpack(slot.kind.load(memory_order_relaxed));
    lane = {.group = group,
            .name = name_of(ring, kind.name),
            .started = slot.started.load(memory_order_relaxed),
            .finished = slot.finished.load(memory_order_relaxed),
            .started_ns = number_of(slot.started_ns),
            .bytes = slot.bytes.load(memory_order_relaxed),
            .bucket = kind.bucket,
            .buckets = kind.buckets};
    std::atomic_thread_fence(memory_order_acquire);
    if (version % 2 == 0 && slot.version.load(memory_order_relaxed) == version) break;
  }
  return lane;
}

}  // namespace

Snapshot copy_state(const Ring& ring) {
  Snapshot copy{.pid = ring.pid.load(memory_order_relaxed),
                .rank = ring.rank,
                .world_size = ring.world_size,
                .host = text_of(ring.host),
                .clock_offset_ns = std::clamp(ring.clock_offset_ns, -8 * kFar, 8 * kFar),
                .step = number_of(ring.step)};
  const std::uint64_t depth = std::min<std::uint64_t>(ring.depth.load(memory_order_acquire), kDepth);
  for (std::uint64_t i = 0; i < depth; ++i) {
    copy.sections.push_back({name_of(ring, ring.sections[i].name.load(memory_order_relaxed)),
                             number_of(ring.sections[i].since_ns), number_of(ring.sections[i].limit_ns)});
  }
  for (std::uint64_t id = 0; id < kNames; ++id) {
    const std::int64_t longest = number_of(ring.names[id].longest_ns);
    const std::int64_t limit = number_of(ring.names[id].limit_ns);
    if (longest > 0 || limit != 0) copy.names.push_back({name_of(ring, id), longest, limit});
  }
  for (int group = 0; group < static_cast<int>(kLanes); ++group) {
    Lane lane = read_lane(ring, group);
    if (lane.started > 0) copy.lanes.push_back(std::move(lane));
  }
  copy.timeout_ns = std::clamp(ring.timeout_ns, std::int64_t{0}, kFar);
  const std::uint64_t next = ring.next.load(memory_order_acquire);
  if (next > 0) copy.last_event_ns = number_of(ring.events[(next - 1) % kEvents].time_ns);
  return copy;
}

Snapshot copy_ring(const Ring& ring) {
  Snapshot copy = copy_state(ring);
  const std::uint64_t next = ring.next.load(memory_order_acquire);
  const std::uint64_t count = std::min<std::uint64_t>(next, kEvents);
  for (std::uint64_t number = next - count; number < next; ++number) {
    if (auto event = read_event(ring, number)) copy.events.push_back(std::move(*event));
  }
  return copy;
}

std::optional<Snapshot> read_ring(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(Ring)) return std::nullopt;
  const auto ring = std::make_unique<Ring>();
  std::memcpy(static_cast<void*>(ring.get()), bytes.data(), sizeof(Ring));
  if (ring->magic.load() != kMagic) return std::nullopt;
  return copy_ring(*ring);
}

}  // namespace lockstep::flight
