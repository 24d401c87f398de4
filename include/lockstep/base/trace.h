// SPDX-License-Identifier: Apache-2.0
// The sinks to which modules report their activity; a module does not know which sinks exist. Without sinks, a span
// costs four loads.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep::trace {

/// The activity in a span. Some fields apply only to collectives.
struct Event {
  std::string_view name;               ///< "all_reduce", "DataLoader::next"; has static lifetime
  std::uint64_t sequence = 0;          ///< a collective's sequence number in its group, from 1; otherwise 0
  std::uint64_t bytes = 0;             ///< size of the data; 0: unknown
  int group = 0;                       ///< index of a collective's group in this process, from 0
  int bucket = -1;                     ///< index of a collective's gradient bucket, less than `buckets`; -1 if none
  int buckets = 0;                     ///< number of buckets
  bool has_failed = false;             ///< set before the span ends
  std::int64_t called_ns = 0;          ///< CLOCK_MONOTONIC when a collective was called
  std::int64_t waited_ns = 0;          ///< CLOCK_MONOTONIC when a thread began waiting for a collective; 0 if none has
  std::chrono::milliseconds limit{0};  ///< time limit of a section; 0: the limit for its name
};

/// Receives the start and end of spans, and the steps. An implementation must be thread-safe and must neither throw nor
/// block.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Called when a span begins, on the span's thread.
  virtual void begin(const Event& event) noexcept = 0;
  /// Called when the span ends, on the same thread.
  virtual void end(const Event& event) noexcept = 0;
  /// Called when a step's computation begins; -1 means that no step follows.
  virtual void step(std::int64_t /*step*/) noexcept {}
};

/// The sinks of a process; unused slots are nullptr.
using Sinks = std::array<Sink*, 4>;

/// Adds a sink. Returns false if Sinks is full. Lifetime: the sink outlives every span that began before remove_sink().
/// Thread-safe: yes.
[[nodiscard]] bool add_sink(Sink& sink) noexcept;
/// Removes a sink; spans that have already begun still report their end to it. Thread-safe: yes.
void remove_sink(Sink& sink) noexcept;
/// Returns the sinks of this process.
[[nodiscard]] Sinks sinks() noexcept;

/// Calls begin() on each sink at construction, and end() on the same sinks when it goes out of scope.
class Span {
 public:
  explicit Span(Event event) noexcept : event_(event), sinks_(sinks()) {
    for (Sink* sink : sinks_) {
      if (sink != nullptr) sink->begin(event_);
    }
  }
  ~Span() {
    for (Sink* sink : sinks_) {
      if (sink != nullptr) sink->end(event_);
    }
  }
  /// Marks the span as failed, for example because a collective timed out.
  void fail() noexcept { event_.has_failed = true; }
  /// Records when a thread began waiting for this span's collective (Event::waited_ns).
  void waited_since(std::int64_t time_ns) noexcept { event_.waited_ns = time_ns; }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  Event event_;
  Sinks sinks_;
};

}  // namespace lockstep::trace

#pragma GCC visibility pop
