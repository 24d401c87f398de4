// SPDX-License-Identifier: Apache-2.0
#include "targets.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dashboard/timeline.h"
#include "lockstep/base/printable.h"
#include "lockstep/flight/watch.h"

namespace lockstep::fuzz {
namespace {

using flight::Ring;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::size_t kChange = 12;  // bytes: a position, a value

// Keeps the compiler from removing the reads.
volatile std::size_t letters_read = 0;

void use(const std::string& text) {
  require(text::printable(text) == text);
  letters_read = letters_read + text.size();
}

std::string ring_of_a_step() {
  const auto ring = std::make_unique<Ring>();
  flight::Writer writer(*ring, {.pid = 17, .rank = 0, .world_size = 2, .host = "host", .timeout_ns = 300 * kSecond});
  writer.set_limit("backward", kSecond);
  for (std::uint64_t step = 0; step < 3; ++step) {
    writer.set_step(static_cast<std::int64_t>(step));
    writer.enter("forward");
    writer.leave("forward");
    writer.enter("backward");
    writer.begin({.name = "all_reduce", .sequence = step, .bytes = 4096, .bucket = 0, .buckets = 2});
    if (step < 2) writer.end({.name = "all_reduce", .sequence = step, .bytes = 4096, .bucket = 0, .buckets = 2});
    if (step < 2) writer.leave("backward");
  }
  return {reinterpret_cast<const char*>(ring.get()), sizeof(Ring)};
}

// Three out of four changes hit the used part of the ring.
std::string changed(std::string bytes, std::string_view changes) {
  constexpr std::size_t kUsed = offsetof(Ring, events) + 32 * sizeof(flight::EventSlot);
  for (; changes.size() >= kChange; changes.remove_prefix(kChange)) {
    std::uint32_t place = 0;
    std::memcpy(&place, changes.data(), sizeof place);
    const std::size_t words = (place % 4 == 0 ? bytes.size() : kUsed) / 8;
    std::memcpy(bytes.data() + place / 4 % words * 8, changes.data() + sizeof place, 8);
  }
  return bytes;
}

void say_all(const flight::WatchFacts& facts) {
  const FailureRecord waiter{.message = "barrier", .rank = 1, .host = "other"};
  if (const auto verdict = flight::judge(facts.ranks, facts.now_ns)) use(verdict->message);
  if (const auto verdict = flight::judge(facts.ranks, facts.now_ns, &waiter)) use(verdict->message);
  if (const auto verdict = flight::judge_sections(facts)) use(verdict->message);
  if (const auto stall = flight::longest_stall(facts)) use(stall->text);
  letters_read = letters_read + static_cast<std::size_t>(flight::has_long_work(facts));
}

}  // namespace

void ring(std::string_view bytes) {
  static const std::string right = ring_of_a_step();
  const std::string wrong = changed(right, bytes);
  const auto snapshot = flight::read_ring(std::as_bytes(std::span(wrong)));
  if (!snapshot) return;
  use(snapshot->host);
  for (const auto& event : snapshot->events) use(event.name);
  const std::int64_t now = snapshot->last_event_ns + kSecond;
  for (const auto& span : dashboard::spans_of(*snapshot, now - 2 * kSecond, now)) use(span.name);
  say_all({.ranks = {{.rank = 0, .host = "host", .ring = snapshot}, {.rank = 1, .host = "host", .ring = snapshot}},
           .now_ns = now});
  const auto other = flight::read_ring(std::as_bytes(std::span(right)));
  say_all({.ranks = {{.rank = 0, .host = "host", .ring = snapshot}, {.rank = 1, .host = "host", .ring = other}},
           .now_ns = other->last_event_ns + kSecond});
}

}  // namespace lockstep::fuzz
