// SPDX-License-Identifier: Apache-2.0
// The agent's side of one rank's flight ring: anonymous memory, which the rank maps through a path that the agent gives
// it. It can be read while the rank hangs and after it has been killed, and it disappears with the agent.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/base/file_system.h"
#include "lockstep/flight/snapshot.h"

namespace lockstep::launch {

class FlightRing {
 public:
  /// While this object lives, `file` is a link to the memory, for users. If memory or descriptors run short, there is
  /// no ring, and a note says so.
  explicit FlightRing(std::filesystem::path file);
  /// Writes the rank's record to `file`, if there is one.
  ~FlightRing();
  FlightRing(const FlightRing&) = delete;
  FlightRing& operator=(const FlightRing&) = delete;

  /// Returns the path that the rank opens; empty if there is no ring.
  [[nodiscard]] std::string path() const;
  /// Returns the rank's current state, without its events. None if the rank has not started the ring, perhaps because
  /// it is not a Lockstep program.
  [[nodiscard]] std::optional<flight::Snapshot> state() const;
  /// Like state(), but with the events.
  [[nodiscard]] std::optional<flight::Snapshot> read() const;
  /// Makes the rank's collectives wait at least until `until_ns` (CLOCK_MONOTONIC).
  void set_patience(std::int64_t until_ns);
  /// Returns true once the rank has started the ring, as every rank that uses Lockstep does in init().
  [[nodiscard]] bool has_begun() const;

 private:
  void keep();

  std::filesystem::path file_;
  UniqueFd memory_;
  flight::Ring* ring_ = nullptr;
};

}  // namespace lockstep::launch
