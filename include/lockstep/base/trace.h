// SPDX-License-Identifier: Apache-2.0
// The sink to which modules report what they do, without knowing who collects it. With no sink set, a span costs one
// load.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep::trace {

/// The subject of a span. `sequence` numbers the collectives of a group; it is 0 elsewhere.
struct Event {
  std::string_view name;  ///< lives for the whole program ("all_reduce", "DataLoader::next")
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;
  int group = 0;    ///< of a collective: its group's number in this process, from 0
  int bucket = -1;  ///< of a gradient bucket's collective: its number, of `buckets`
  int buckets = 0;
  bool has_failed = false;             ///< at its end
  std::chrono::milliseconds limit{0};  ///< of a section: how long it may take; 0: as its name says
};

/// Receives begin and end of spans, and the steps. An implementation must be thread-safe and must neither throw nor
/// block.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void begin(const Event& event) noexcept = 0;
  virtual void end(const Event& event) noexcept = 0;
  /// The step that is computed from now on; -1: none.
  virtual void step(std::int64_t /*step*/) noexcept {}
};

/// Sets the sink of this process (nullptr: none). Lifetime: the sink outlives every span.
void set_sink(Sink* sink) noexcept;
[[nodiscard]] Sink* sink() noexcept;

/// Calls begin() at construction and end() when it goes out of scope.
class Span {
 public:
  explicit Span(Event event) noexcept : event_(event), sink_(sink()) {
    if (sink_ != nullptr) sink_->begin(event_);
  }
  ~Span() {
    if (sink_ != nullptr) sink_->end(event_);
  }
  /// It ends without what it was for, as a collective that timed out.
  void fail() noexcept { event_.has_failed = true; }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  Event event_;
  Sink* sink_;
};

}  // namespace lockstep::trace

#pragma GCC visibility pop
