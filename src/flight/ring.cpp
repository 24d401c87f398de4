// SPDX-License-Identifier: Apache-2.0
#include "lockstep/flight/ring.h"

#include <time.h>

#include <algorithm>

#include "flight/packed_kind.h"

namespace lockstep::flight {
namespace {

using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;

std::int64_t clock_ns(clockid_t clock) noexcept {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

void copy_text(char* target, std::size_t size, std::string_view text) noexcept {
  target[text.copy(target, size - 1)] = '\0';
}

// Returns the index of the group's lane. Groups with high numbers share the last lane of the host or of the GPU.
int host_lane(int group) noexcept { return std::clamp(group, 0, kDeviceLanes - 1); }

int device_lane(int group) noexcept {
  return kDeviceLanes + std::clamp(group, 0, static_cast<int>(kLanes) - kDeviceLanes - 1);
}

LaneSlot& lane_at(Ring& ring, int index) noexcept { return ring.lanes[static_cast<std::size_t>(index)]; }

}  // namespace

std::int64_t now_ns() noexcept { return clock_ns(CLOCK_MONOTONIC); }

Writer::Writer(Ring& ring, const RingOwner& owner) noexcept : ring_(ring) {
  ring.magic.store(0, memory_order_release);
  for (EventSlot& event : ring.events) event.stamp.store(0, memory_order_relaxed);
  for (NameSlot& name : ring.names) {
    name.is_ready.store(0, memory_order_relaxed);
    name.longest_ns.store(0, memory_order_relaxed);
    name.limit_ns.store(0, memory_order_relaxed);
  }
  for (LaneSlot& lane : ring.lanes) {
    for (auto* number : {&lane.version, &lane.started, &lane.finished, &lane.bytes, &lane.kind}) number->store(0);
    lane.started_ns.store(0);
  }
  ring.next.store(0, memory_order_relaxed);
  ring.depth.store(0, memory_order_relaxed);
  ring.step.store(-1, memory_order_relaxed);
  ring.rank = owner.rank;
  ring.world_size = owner.world_size;
  ring.timeout_ns = owner.timeout_ns;
  ring.patience_ns.store(0, memory_order_relaxed);
  ring.clock_offset_ns = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
  copy_text(ring.host, sizeof ring.host, owner.host);
  (void)id_of("other");
  ring.pid.store(owner.pid, memory_order_relaxed);
  ring.magic.store(kMagic, memory_order_release);
}

// Finds a name by its address, which is faster than comparing strings.
std::uint64_t Writer::id_of(std::string_view name) noexcept {
  const std::size_t first = (reinterpret_cast<std::uintptr_t>(name.data()) >> 3U) % kNames;
  for (std::size_t probe = 0; probe < kNames; ++probe) {
    const std::size_t at = (first + probe) % kNames;
    const char* here = known_[at].load(memory_order_acquire);
    if (here == name.data()) return at;
    if (here != nullptr) continue;
    const char* expected = nullptr;
    if (!known_[at].compare_exchange_strong(expected, name.data())) {
      if (expected == name.data()) return at;
      continue;
    }
    copy_text(ring_.names[at].text, sizeof ring_.names[at].text, name);
    ring_.names[at].is_ready.store(1, memory_order_release);
    return at;
  }
  return kNames;  // the table is full
}

void Writer::push(EventType type, const Call& call, std::int64_t time_ns) noexcept {
  const std::uint64_t number = ring_.next.fetch_add(1, memory_order_relaxed);
  EventSlot& slot = ring_.events[number % kEvents];
  slot.stamp.store(0, memory_order_relaxed);
  std::atomic_thread_fence(memory_order_release);
  slot.time_ns.store(time_ns, memory_order_relaxed);
  slot.sequence.store(call.sequence, memory_order_relaxed);
  slot.bytes.store(call.bytes, memory_order_relaxed);
  slot.step.store(ring_.step.load(memory_order_relaxed), memory_order_relaxed);
  slot.other_ns.store(type == EventType::kCollectiveBegin ? call.called_ns : call.waited_ns, memory_order_relaxed);
  slot.kind.store(pack({type, id_of(call.name), call.group, call.bucket, call.buckets}), memory_order_relaxed);
  slot.stamp.store(number + 1, memory_order_release);
}

namespace {

// Sets the last collective of a lane. Only one thread at a time does so, so an atomic increment is not needed.
void set_lane(LaneSlot& lane, const Writer::Call& call, std::int64_t now, std::uint64_t kind) noexcept {
  const std::uint64_t version = lane.version.load(memory_order_relaxed);
  lane.version.store(version + 1, memory_order_relaxed);
  std::atomic_thread_fence(memory_order_release);
  lane.started.store(call.sequence, memory_order_relaxed);
  lane.started_ns.store(now, memory_order_relaxed);
  lane.bytes.store(call.bytes, memory_order_relaxed);
  lane.kind.store(kind, memory_order_relaxed);
  lane.version.store(version + 2, memory_order_release);
}

}  // namespace

void Writer::begin(const Call& call) noexcept {
  const std::int64_t now = now_ns();
  set_lane(lane_at(ring_, host_lane(call.group)), call, now,
           pack({EventType::kCollectiveBegin, id_of(call.name), call.group, call.bucket, call.buckets}));
  push(EventType::kCollectiveBegin, call, now);
}

void Writer::end(const Call& call) noexcept {
  if (!call.has_failed) lane_at(ring_, host_lane(call.group)).finished.store(call.sequence, memory_order_relaxed);
  push(call.has_failed ? EventType::kCollectiveFailed : EventType::kCollectiveEnd, call, now_ns());
}

void Writer::begin_on_device(const Call& call) noexcept {
  const int lane = device_lane(call.group);
  set_lane(lane_at(ring_, lane), call, now_ns(),
           pack({EventType::kCollectiveBegin, id_of(call.name), lane, call.bucket, call.buckets}));
}

void Writer::end_on_device(const Call& call) noexcept {
  lane_at(ring_, device_lane(call.group)).finished.store(call.sequence, memory_order_relaxed);
}

void Writer::note_section(EventType type, std::string_view name) noexcept { push(type, {.name = name}, now_ns()); }

void Writer::set_limit(std::string_view name, std::int64_t limit_ns) noexcept {
  const std::uint64_t id = id_of(name);
  if (id < kNames) ring_.names[id].limit_ns.store(limit_ns, memory_order_relaxed);
}

void Writer::enter(std::string_view name, std::int64_t limit_ns, std::int64_t queued_ns) noexcept {
  const std::int64_t now = now_ns();
  const std::uint64_t depth = ring_.depth.load(memory_order_relaxed);
  if (depth < kDepth) {
    ring_.sections[depth].name.store(id_of(name), memory_order_relaxed);
    ring_.sections[depth].since_ns.store(now, memory_order_relaxed);
    ring_.sections[depth].limit_ns.store(limit_ns, memory_order_relaxed);
  }
  ring_.depth.store(depth + 1, memory_order_release);
  push(EventType::kSectionBegin, {.name = name, .waited_ns = queued_ns}, now);
}

void Writer::leave(std::string_view name, std::int64_t queued_ns) noexcept {
  const std::int64_t now = now_ns();
  const std::uint64_t depth = ring_.depth.load(memory_order_relaxed);
  if (depth > 0) ring_.depth.store(depth - 1, memory_order_release);
  if (depth > 0 && depth <= kDepth) {
    const SectionSlot& section = ring_.sections[depth - 1];
    const std::uint64_t id = section.name.load(memory_order_relaxed);
    const std::int64_t took = now - section.since_ns.load(memory_order_relaxed);
    // Only this thread writes longest_ns.
    if (id < kNames && took > ring_.names[id].longest_ns.load(memory_order_relaxed)) {
      ring_.names[id].longest_ns.store(took, memory_order_relaxed);
    }
  }
  push(EventType::kSectionEnd, {.name = name, .waited_ns = queued_ns}, now);
}

}  // namespace lockstep::flight
