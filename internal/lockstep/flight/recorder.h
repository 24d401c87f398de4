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

/// Who the recorder's rank is.
struct RecorderOptions {
  int rank = 0;                          ///< its number
  int world_size = 1;                    ///< the number of ranks
  std::string host = {};                 ///< its host's name
  std::chrono::milliseconds timeout{0};  ///< how long the rank's collectives wait
  std::filesystem::path file = {};       ///< where others read the ring; empty: memory of this process alone
};

/// Records from now on what trace::Span reports: collectives, sections, steps. The calling thread is the one whose
/// sections say where the rank is. A second call does nothing. A file that cannot
/// be mapped, or that a living process records in, costs a note and is not used.
/// Cost: 268 KB of memory, some 40 ns an event, and 0.8 us at most every half millisecond (Event::queued_ns).
void start_recorder(const RecorderOptions& options);

/// Sets how long a section of this name may take (watch.h); 0: any time. Call it after start_recorder(), which init()
/// calls; without a recorder it does nothing. Thread-safe: yes.
void limit_section(std::string_view name, std::chrono::milliseconds limit);

/// Notes that this rank's GPU is in the collective `event`, which the flight ring then says; `ends`: it no longer is.
/// Without a recorder it does nothing. Only one thread at a time may call it for a group.
void note_on_device(const trace::Event& event, bool ends) noexcept;

/// Returns until when this rank's collectives wait in any case, because the launcher sees another rank at long work. In
/// the past: they keep to their own timeout. Thread-safe: yes; it costs one load.
[[nodiscard]] std::chrono::steady_clock::time_point patience() noexcept;

}  // namespace lockstep::flight

#pragma GCC visibility pop
