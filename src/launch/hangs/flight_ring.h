// SPDX-License-Identifier: Apache-2.0
// The flight ring of one rank, on its agent's side: nameless memory that the rank maps by a path of ours. It can be
// read while the rank hangs and after it was killed, and is gone with the agent.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/base/file_system.h"
#include "lockstep/flight/snapshot.h"

namespace lockstep::launch {

class FlightRing {
 public:
  /// `file`: a link to the memory while this lives, for people. Without memory or descriptors there is no ring, but a
  /// note.
  explicit FlightRing(std::filesystem::path file);
  /// Keeps the rank's record as `file`, if there is one.
  ~FlightRing();
  FlightRing(const FlightRing&) = delete;
  FlightRing& operator=(const FlightRing&) = delete;

  /// The path for the rank to open; empty: there is none.
  [[nodiscard]] std::string path() const;
  /// Returns the rank's present state, without its events. None: the rank has not begun the ring; it may be no Lockstep
  /// program.
  [[nodiscard]] std::optional<flight::Snapshot> state() const;
  /// The same with its events.
  [[nodiscard]] std::optional<flight::Snapshot> read() const;
  /// Makes the rank's collectives wait at least until then (CLOCK_MONOTONIC).
  void set_patience(std::int64_t until_ns);
  /// Returns true once the rank has begun the ring, as every rank that uses Lockstep does in init().
  [[nodiscard]] bool has_begun() const;

 private:
  void keep();

  std::filesystem::path file_;
  UniqueFd memory_;
  flight::Ring* ring_ = nullptr;
};

}  // namespace lockstep::launch
