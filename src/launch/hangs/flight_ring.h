// SPDX-License-Identifier: Apache-2.0
// The flight ring of one rank, as its agent has it: nameless memory that the rank maps by a path of ours, so that it is
// read while the rank hangs and after it was killed, and nothing is left of it when the agent is gone.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/base/file_system.h"
#include "lockstep/flight/snapshot.h"

namespace lockstep::launch {

class FlightRing {
 public:
  /// `file`: where people find it: a link to the memory while this lives. Without memory or descriptors there is no
  /// ring, which costs a note.
  explicit FlightRing(std::filesystem::path file);
  /// Keeps what the rank wrote as `file`, if it wrote any.
  ~FlightRing();
  FlightRing(const FlightRing&) = delete;
  FlightRing& operator=(const FlightRing&) = delete;

  /// For the rank to open; empty: there is none.
  [[nodiscard]] std::string path() const;
  /// Returns where the rank is, without its events. None: the rank has not begun the ring; it may be no Lockstep
  /// program.
  [[nodiscard]] std::optional<flight::Snapshot> state() const;
  /// The same with its events.
  [[nodiscard]] std::optional<flight::Snapshot> read() const;
  /// Lets the rank's collectives wait until then (CLOCK_MONOTONIC) in any case.
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
