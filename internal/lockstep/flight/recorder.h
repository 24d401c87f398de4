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

/// The settings of a flight recorder: the rank whose events are recorded, and the file.
struct RecorderOptions {
  int rank = 0;                          ///< the rank's number
  int world_size = 1;                    ///< number of ranks
  std::string host = {};                 ///< name of the rank's host
  std::chrono::milliseconds timeout{0};  ///< the timeout of the rank's collectives
  std::filesystem::path file = {};       ///< the ring's file, for other processes; empty: only in this process's memory
};

/// Records the events that trace::Span reports from then on: collectives, sections, steps. Only sections of the calling
/// thread (the main thread) determine the rank's current position. A second call does nothing. If the file cannot be
/// mapped, or a live process is recording in it, the recorder logs a note and does not use it.
/// Cost: 268 KB of memory, about 40 ns per event, and at most 0.8 us every half millisecond (Event::queued_ns).
void start_recorder(const RecorderOptions& options);

/// Sets the time limit of sections with this name (watch.h); 0 means no limit. Call it after init(), which calls
/// start_recorder(); without a recorder it does nothing. Thread-safe: yes.
void limit_section(std::string_view name, std::chrono::milliseconds limit);

/// Records that this rank's GPU begins the collective `event`, or has completed it if `ends`. Does nothing without a
/// recorder. Only one thread at a time may call it for a group.
void note_on_device(const trace::Event& event, bool ends) noexcept;

/// Returns the time before which this rank's collectives must not time out, because the launcher sees that another rank
/// is in a long-running section. Once that time has passed, only the collectives' own timeout counts. Thread-safe: yes;
/// it costs one load.
[[nodiscard]] std::chrono::steady_clock::time_point patience() noexcept;

}  // namespace lockstep::flight

#pragma GCC visibility pop
