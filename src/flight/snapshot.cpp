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

// A text of the ring: nobody knows what a foreign file has there.
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
              .time_ns = slot.time_ns.load(memory_order_relaxed),
              .what = kind.what,
              .name = name_of(ring, kind.name),
              .sequence = slot.sequence.load(memory_order_relaxed),
              .bytes = slot.bytes.load(memory_order_relaxed),
              .step = slot.step.load(memory_order_relaxed),
              .group = kind.group,
              .bucket = kind.bucket,
              .buckets = kind.buckets};
  const bool is_section = kind.what == What::kSectionBegin || kind.what == What::kSectionEnd;
  std::int64_t& other = kind.what == What::kCollectiveBegin ? event.called_ns : event.waited_ns;
  (is_section ? event.queued_ns : other) = slot.other_ns.load(memory_order_relaxed);
  std::atomic_thread_fence(memory_order_acquire);
  if (slot.stamp.load(memory_order_relaxed) != number + 1) return std::nullopt;
  return event;
}

// A rank that was killed inside begin() leaves an odd version: then what is there counts.
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
            .started_ns = slot.started_ns.load(memory_order_relaxed),
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
                .clock_offset_ns = ring.clock_offset_ns,
                .step = ring.step.load(memory_order_relaxed)};
  const std::uint64_t depth = std::min<std::uint64_t>(ring.depth.load(memory_order_acquire), kDepth);
  for (std::uint64_t i = 0; i < depth; ++i) {
    copy.sections.push_back({name_of(ring, ring.sections[i].name.load(memory_order_relaxed)),
                             ring.sections[i].since_ns.load(memory_order_relaxed),
                             ring.sections[i].limit_ns.load(memory_order_relaxed)});
  }
  for (std::uint64_t id = 0; id < kNames; ++id) {
    const std::int64_t longest = ring.names[id].longest_ns.load(memory_order_relaxed);
    const std::int64_t limit = ring.names[id].limit_ns.load(memory_order_relaxed);
    if (longest > 0 || limit != 0) copy.names.push_back({name_of(ring, id), longest, limit});
  }
  for (int group = 0; group < static_cast<int>(kLanes); ++group) {
    Lane lane = read_lane(ring, group);
    if (lane.started > 0) copy.lanes.push_back(std::move(lane));
  }
  copy.timeout_ns = ring.timeout_ns;
  const std::uint64_t next = ring.next.load(memory_order_acquire);
  if (next > 0) copy.last_event_ns = ring.events[(next - 1) % kEvents].time_ns.load(memory_order_relaxed);
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
