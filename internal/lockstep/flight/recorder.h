// SPDX-License-Identifier: Apache-2.0
// Starts this process's flight recorder.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>

#include "lockstep/base/trace.h"

#pragma GCC visibility push(default)

namespace lockstep::flight {

/// The rank whose events are recorded.
struct RecorderOptions {
  int rank = 0;                          ///< its number
  int world_size = 1;                    ///< the number of ranks
  std::string host = {};                 ///< its host's name
  std::chrono::milliseconds timeout{0};  ///< the timeout of the rank's collectives
  std::filesystem::path file = {};       ///< where other processes read the ring; empty: memory of this process alone
};

/// Records the events that trace::Span reports from now on: collectives, sections, steps. Only the calling thread's
/// sections count as the place of the rank. A second call does nothing. If the file cannot be mapped, or a living
/// process records in it, the recorder writes a note and does not use it.
/// Cost: 268 KB of memory, some 40 ns an event, and 0.8 us at most every half millisecond (Event::queued_ns).
void start_recorder(const RecorderOptions& options);

/// Sets the time limit of sections with this name (watch.h); 0: none. Call it after start_recorder(), which init()
/// calls; without a recorder it does nothing. Thread-safe: yes.
void limit_section(std::string_view name, std::chrono::milliseconds limit);

/// Notes in the flight ring that this rank's GPU is in the collective `event`; `ends`: it has left it. Does nothing
/// without a recorder. Only one thread at a time may call it for a group.
void note_on_device(const trace::Event& event, bool ends) noexcept;

/// Returns the time until which this rank's collectives wait in any case, because the launcher sees another rank at
/// long work. If it is past, they keep to their own timeout. Thread-safe: yes; it costs one load.
[[nodiscard]] std::chrono::steady_clock::time_point patience() noexcept;

}  // namespace lockstep::flight

#pragma GCC visibility pop
