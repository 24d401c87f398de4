// SPDX-License-Identifier: Apache-2.0
// Runs worlds, each in its own process, and totals their results.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/plan.h"
#include "sim/world.h"

namespace lockstep::sim {

/// A folder in memory for the agents' logs. It is removed at the end.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Runs a plan in its own process. The result lives in shared memory and is valid until the next call.
/// `is_full`: the result includes the whole history.
[[nodiscard]] const Result& run_world(const Plan& plan, const Scratch& scratch, bool is_full = false);

/// Results totalled over many worlds.
struct Totals {
  std::uint64_t worlds = 0;
  std::uint64_t failed = 0;
  std::uint64_t succeeded = 0;  ///< worlds in which the job reached its last step
  std::uint64_t rounds = 0;
  std::uint64_t turns = 0;  ///< turns taken by threads
  double virtual_s = 0;
  std::array<std::uint64_t, static_cast<std::size_t>(Fault::Kind::kCount)> faults{};
  std::array<std::uint64_t, static_cast<std::size_t>(Fault::Kind::kCount)> worlds_with{};

  Use most;  ///< peak usage of any agent
  Use most_share;
  std::array<std::uint64_t, static_cast<std::size_t>(NetworkEvent::kCount)> network{};
  std::array<std::uint64_t, static_cast<std::size_t>(NetworkEvent::kCount)> worlds_with_network{};

  void add(const Result& result);
  /// Returns the events and faults that should have occurred in this many worlds but did not.
  [[nodiscard]] std::vector<std::string> missing() const;
};

/// Returns a table of what occurred.
[[nodiscard]] std::string to_text(const Totals& totals, double seconds);

}  // namespace lockstep::sim
