// SPDX-License-Identifier: Apache-2.0
// The sinks to which modules report their activity; modules do not know the sinks. Without sinks, a span costs four
// loads.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep::trace {

/// The subject of a span. `sequence` numbers the collectives of a group; it is 0 elsewhere.
struct Event {
  std::string_view name;               ///< lives for the whole program ("all_reduce", "DataLoader::next")
  std::uint64_t sequence = 0;          ///< of a collective: its number in its group, from 1
  std::uint64_t bytes = 0;             ///< size of the data; 0: unknown
  int group = 0;                       ///< of a collective: its group's number in this process, from 0
  int bucket = -1;                     ///< of a gradient bucket's collective: its number, of `buckets`
  int buckets = 0;                     ///< number of buckets
  bool has_failed = false;             ///< at its end
  std::int64_t called_ns = 0;          ///< of a collective: CLOCK_MONOTONIC when it was called
  std::int64_t waited_ns = 0;          ///< at its end: when a thread began to wait for it; 0: none has
  std::chrono::milliseconds limit{0};  ///< of a section: its time limit; 0: that of its name
};

/// Receives the begin and end of spans, and the steps. An implementation must be thread-safe and must neither throw nor
/// block.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Called when a span begins, in the span's thread.
  virtual void begin(const Event& event) noexcept = 0;
  /// Called when the span ends, in the same thread.
  virtual void end(const Event& event) noexcept = 0;
  /// Called with the step that is computed from now on; -1: none.
  virtual void step(std::int64_t /*step*/) noexcept {}
};

/// The sinks of a process; unused places are nullptr.
using Sinks = std::array<Sink*, 4>;

/// Adds a sink. Returns false if Sinks is full. Lifetime: the sink outlives every span that began before remove_sink().
/// Thread-safe: yes.
[[nodiscard]] bool add_sink(Sink& sink) noexcept;
/// Removes a sink; spans that have begun still end in it. Thread-safe: yes.
void remove_sink(Sink& sink) noexcept;
/// Returns the sinks of this process.
[[nodiscard]] Sinks sinks() noexcept;

/// Calls begin() of each sink at construction, and end() of the same sinks when it goes out of scope.
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
  /// Marks that the span ends with a failure, such as a timeout of a collective.
  void fail() noexcept { event_.has_failed = true; }
  /// Notes when a thread began to wait for it (Event::waited_ns).
  void waited_since(std::int64_t time_ns) noexcept { event_.waited_ns = time_ns; }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  Event event_;
  Sinks sinks_;
};

}  // namespace lockstep::trace

#pragma GCC visibility pop
