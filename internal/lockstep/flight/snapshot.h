// SPDX-License-Identifier: Apache-2.0
// Copies a rank's flight ring while the rank runs or hangs, or after it has died.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/file_system.h"
#include "lockstep/flight/ring.h"

#pragma GCC visibility push(default)

namespace lockstep::flight {

/// One event of a rank.
struct Event {
  std::uint64_t number = 0;           ///< number of the event on the rank, from 0
  std::int64_t time_ns = 0;           ///< CLOCK_MONOTONIC of the rank's host
  EventType type = EventType::kNone;  ///< the type of the event
  std::string name;                   ///< name of the collective or section
  std::uint64_t sequence = 0;         ///< number of a collective in its group
  std::uint64_t bytes = 0;            ///< size of the collective's data
  std::int64_t step = -1;             ///< the step at that moment; -1: outside a step
  int group = 0;                      ///< number of a collective's group
  int bucket = -1;                    ///< index of its gradient bucket; -1 if none
  int buckets = 0;                    ///< number of buckets
  std::int64_t called_ns = 0;         ///< in a begin event: when the collective was called; 0: unknown
  std::int64_t waited_ns = 0;         ///< in an end event: when a thread began waiting for it; 0 if none has
  std::int64_t queued_ns = 0;  ///< in begin and end events of the main thread's sections: the total time so far in
                               ///< which this thread was ready to run but waited for a core; 0: unknown or none
};

/// The last collective that a group began.
struct Lane {
  int group = 0;                ///< the group's number in the rank's process
  std::string name;             ///< the collective's name
  std::uint64_t started = 0;    ///< number of the last collective that began
  std::uint64_t finished = 0;   ///< number of the last collective that completed
  std::int64_t started_ns = 0;  ///< CLOCK_MONOTONIC when the last collective began
  std::uint64_t bytes = 0;      ///< size of its data
  int bucket = -1;              ///< index of its gradient bucket; -1 if none
  int buckets = 0;              ///< number of buckets

  /// Returns true if the last collective has not completed.
  [[nodiscard]] bool is_running() const { return started > finished; }
};

/// A section that the main thread is in.
struct Section {
  std::string name;           ///< its name
  std::int64_t since_ns = 0;  ///< CLOCK_MONOTONIC when it began
  std::int64_t limit_ns = 0;  ///< limit only for this section; 0: none
};

/// The facts about all sections with the same name.
struct SectionName {
  std::string name;             ///< the name
  std::int64_t longest_ns = 0;  ///< duration of the longest section; 0: no section has ended yet
  std::int64_t limit_ns = 0;    ///< limit that the user has set; 0: it is learned; below 0: no limit
};

/// The contents of a rank's ring at one moment.
struct Snapshot {
  int pid = 0;                       ///< the rank's process
  int rank = 0;                      ///< the rank's number
  int world_size = 1;                ///< the number of ranks
  std::string host;                  ///< the host's name
  std::int64_t clock_offset_ns = 0;  ///< add it to CLOCK_MONOTONIC to get CLOCK_REALTIME
  std::int64_t step = -1;            ///< the current step; -1: outside a step
  std::vector<Section> sections;     ///< sections that the main thread is in, outermost first
  std::vector<SectionName> names;    ///< sections that have ended or have a limit
  std::vector<Lane> lanes;           ///< groups that have begun a collective
  std::int64_t timeout_ns = 0;       ///< timeout of its collectives; 0: unknown
  std::int64_t last_event_ns = 0;    ///< CLOCK_MONOTONIC of the last event; 0: none yet
  std::vector<Event> events;         ///< the events, oldest first, excluding events left incomplete by a kill
};

/// Reads the bytes of a ring; returns none if they are not a ring or the ring is not ready. Safe for arbitrary bytes.
[[nodiscard]] std::optional<Snapshot> read_ring(std::span<const std::byte> bytes);

/// Copies a ring into which another process may be writing.
[[nodiscard]] Snapshot copy_ring(const Ring& ring);
/// Copies everything except the events, in microseconds.
[[nodiscard]] Snapshot copy_state(const Ring& ring);

/// Opens a ring file that another user may have put there. It must be a regular file or, while the launcher is alive, a
/// link to the launcher's memory file, whose size is sealed so that mapping it is safe. Rejects any other link, a pipe
/// or a file of a different size at once. Throws: DataError.
[[nodiscard]] UniqueFd open_ring_file(const std::filesystem::path& file);

/// Reads a file that open_ring_file() accepts. Throws: DataError if the file cannot be read or is not a ring.
[[nodiscard]] Snapshot read_ring_file(const std::filesystem::path& file);

}  // namespace lockstep::flight

#pragma GCC visibility pop
