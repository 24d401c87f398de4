// SPDX-License-Identifier: Apache-2.0
// Runs worlds, each in a process of its own, and counts what became of them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/plan.h"
#include "sim/world.h"

namespace lockstep::sim {

/// Where worlds keep their agents' logs: a folder in memory, removed at the end.
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

/// Runs a plan in a process of its own. The result lies in memory of both, and is the last call's. `is_full`: with the
/// whole story.
[[nodiscard]] const Result& run_world(const Plan& plan, const Scratch& scratch, bool is_full = false);

/// What became of many worlds.
struct Totals {
  std::uint64_t worlds = 0;
  std::uint64_t failed = 0;
  std::uint64_t succeeded = 0;  ///< the job reached its last step
  std::uint64_t rounds = 0;
  std::uint64_t turns = 0;  ///< of threads
  double virtual_s = 0;
  std::array<std::uint64_t, static_cast<std::size_t>(Fault::Kind::kCount)> faults{};
  std::array<std::uint64_t, static_cast<std::size_t>(Fault::Kind::kCount)> worlds_with{};

  Use most;  ///< of an agent
  Use most_share;
  std::array<std::uint64_t, static_cast<std::size_t>(NetworkEvent::kCount)> network{};
  std::array<std::uint64_t, static_cast<std::size_t>(NetworkEvent::kCount)> worlds_with_network{};

  void add(const Result& result);
  /// What many worlds should have seen, and these have not.
  [[nodiscard]] std::vector<std::string> missing() const;
};

/// Returns a table of what occurred.
[[nodiscard]] std::string to_text(const Totals& totals, double seconds);

}  // namespace lockstep::sim
