// SPDX-License-Identifier: Apache-2.0
// The sink to which modules report what they do, without knowing who collects it. With no sink set, a span costs one
// load.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep::trace {

/// The subject of a span. `sequence` numbers the collectives of a group; it is 0 elsewhere.
struct Event {
  std::string_view name;  ///< lives for the whole program ("all_reduce", "DataLoader::next")
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;
};

/// Receives begin and end of spans. An implementation must be thread-safe and must neither throw nor block.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void begin(const Event& event) noexcept = 0;
  virtual void end(const Event& event) noexcept = 0;
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
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  Event event_;
  Sink* sink_;
};

}  // namespace lockstep::trace

#pragma GCC visibility pop
