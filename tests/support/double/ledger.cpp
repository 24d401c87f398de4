// SPDX-License-Identifier: Apache-2.0
#include "support/double/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace lockstep::testing::make_believe {
namespace {

/// The progress that the calling thread knows about from the events it has queried.
Clock& seen_here() {
  static thread_local Clock clock;
  return clock;
}

/// Merges accesses, because an operator may get the same memory twice, once to read and once to write.
std::vector<Access> merged(const std::vector<Access>& accesses) {
  std::vector<Access> found;
  for (const Access& access : accesses) {
    const auto same = std::find_if(found.begin(), found.end(), [&](const Access& other) {
      return other.begin == access.begin && other.bytes == access.bytes;
    });
    if (same == found.end()) {
      found.push_back(access);
    } else {
      same->writes = same->writes || access.writes;
    }
  }
  return found;
}

}  // namespace

std::uint64_t Clock::at(int stream) const {
  const auto index = static_cast<std::size_t>(stream);
  return index < ticks_.size() ? ticks_[index] : 0;
}

void Clock::set(int stream, std::uint64_t tick) {
  const auto index = static_cast<std::size_t>(stream);
  if (index >= ticks_.size()) ticks_.resize(index + 1);
  ticks_[index] = tick;
}

void Clock::join(const Clock& other) {
  if (ticks_.size() < other.ticks_.size()) ticks_.resize(other.ticks_.size());
  for (std::size_t i = 0; i < other.ticks_.size(); ++i) ticks_[i] = std::max(ticks_[i], other.ticks_[i]);
}

Ledger& Ledger::instance() {
  static auto* const ledger = new Ledger;
  return *ledger;
}

int Ledger::add_stream(std::string name) {
  const std::lock_guard lock(mutex_);
  names_.push_back(std::move(name));
  clocks_.emplace_back();
  return static_cast<int>(names_.size()) - 1;
}

Ledger::Block* Ledger::block_of(const void* address) {
  auto after = blocks_.upper_bound(static_cast<const std::byte*>(address));
  if (after == blocks_.begin()) return nullptr;
  Block& block = (--after)->second;
  return static_cast<const std::byte*>(address) < block.end ? &block : nullptr;
}

void Ledger::report(const std::string& what) {
  std::fprintf(stderr, "simulated GPU: %s\n", what.c_str());
  races_.push_back(what);
}

void Ledger::touch(Block& block, const Note& note) {
  const Clock& known = clocks_[static_cast<std::size_t>(note.stream)];
  for (const Note& earlier : block.notes) {
    const bool apart = earlier.end <= note.begin || note.end <= earlier.begin;
    const bool clash = !apart && (earlier.writes || note.writes);
    if (!clash || earlier.tick <= known.at(earlier.stream)) continue;
    report(fmt::format("{} on {} {} what {} on {} {}, and does not wait for it", note.name,
                       names_[static_cast<std::size_t>(note.stream)], note.writes ? "writes" : "reads", earlier.name,
                       names_[static_cast<std::size_t>(earlier.stream)], earlier.writes ? "writes" : "reads"));
  }
  std::erase_if(block.notes, [&](const Note& earlier) {
    const bool covered = note.begin <= earlier.begin && earlier.end <= note.end;
    return covered && (note.writes || (!earlier.writes && earlier.stream == note.stream));
  });
  block.notes.push_back(note);
}

void Ledger::run(int stream, const std::string& name, const std::vector<Access>& accesses) {
  const std::lock_guard lock(mutex_);
  Clock& clock = clocks_[static_cast<std::size_t>(stream)];
  clock.join(waited_);
  clock.join(seen_here());
  const std::uint64_t tick = clock.at(stream) + 1;
  clock.set(stream, tick);
  for (const Access& access : merged(accesses)) {
    Block* const block = access.bytes == 0 ? nullptr : block_of(access.begin);
    const auto* begin = static_cast<const std::byte*>(access.begin);
    if (block != nullptr) touch(*block, {begin, begin + access.bytes, access.writes, stream, tick, name});
  }
}

Clock Ledger::record(int stream) {
  const std::lock_guard lock(mutex_);
  Clock& clock = clocks_[static_cast<std::size_t>(stream)];
  clock.join(seen_here());
  return clock;
}

void Ledger::hold(int stream, const Clock& clock) {
  const std::lock_guard lock(mutex_);
  clocks_[static_cast<std::size_t>(stream)].join(clock);
}

void Ledger::seen(const Clock& clock) { seen_here().join(clock); }

void Ledger::waited(const Clock& clock) {
  const std::lock_guard lock(mutex_);
  waited_.join(clock);
}

void Ledger::take(const void* begin, std::size_t bytes, int stream) {
  if (begin == nullptr || bytes == 0) return;
  const std::lock_guard lock(mutex_);
  const auto* first = static_cast<const std::byte*>(begin);
  blocks_[first] = Block{.end = first + bytes, .stream = stream};
  taken_ += static_cast<std::int64_t>(bytes);
  peak_ = std::max(peak_, taken_);
}

bool Ledger::is_over(const Note& note, const Clock& for_stream) const {
  return note.tick <= for_stream.at(note.stream) || note.tick <= waited_.at(note.stream) ||
         note.tick <= seen_here().at(note.stream);
}

void Ledger::give_back(const void* begin) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(static_cast<const std::byte*>(begin));
  if (found == blocks_.end()) return;
  const Block& block = found->second;
  for (const Note& note : block.notes) {
    if (note.stream == block.stream || block.recorded.count(note.stream) != 0) continue;
    if (is_over(note, clocks_[static_cast<std::size_t>(block.stream)])) continue;
    // The allocator waits for the recorded streams' current work, which may have waited for other streams.
    if (std::any_of(block.recorded.begin(), block.recorded.end(),
                    [&](int stream) { return is_over(note, clocks_[static_cast<std::size_t>(stream)]); })) {
      continue;
    }
    report(fmt::format("memory of {} is given back while {} on {} may use it",
                       names_[static_cast<std::size_t>(block.stream)], note.name,
                       names_[static_cast<std::size_t>(note.stream)]));
  }
  taken_ -= block.end - found->first;
  blocks_.erase(found);
}

bool Ledger::has_taken(const std::string& name, const std::vector<Access>& accesses) {
  const std::lock_guard lock(mutex_);
  for (const Access& access : accesses) {
    if (access.bytes == 0 || block_of(access.begin) != nullptr) continue;
    report(fmt::format("{} of a graph uses memory that was given back", name));
    return false;
  }
  return true;
}

std::int64_t Ledger::peak() {
  const std::lock_guard lock(mutex_);
  return peak_;
}

void Ledger::restart_peak() {
  const std::lock_guard lock(mutex_);
  peak_ = taken_;
}

void Ledger::record_stream(const void* begin, int stream) {
  const std::lock_guard lock(mutex_);
  if (Block* const block = block_of(begin)) block->recorded.insert(stream);
}

std::vector<std::string> Ledger::take_races() {
  const std::lock_guard lock(mutex_);
  return std::exchange(races_, {});
}

}  // namespace lockstep::testing::make_believe
