// SPDX-License-Identifier: Apache-2.0
// Detects silent ranks of a program that does not use Lockstep, which leave no evidence of what they are waiting for.
// If all ranks of a node are silent and idle at the same time, the launcher reports that. Pure: time, output and CPU
// time are passed in.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/clock.h"

namespace lockstep::launch {

/// How long a silence lasts before it is reported.
inline constexpr std::chrono::seconds kSaidAfter{60};

/// The facts about the ranks that are visible from outside.
struct NodeActivity {
  std::uint64_t output = 0;  ///< a count that grows with the ranks' output
  std::size_t ranks = 0;     ///< number of live ranks
  /// Returns the CPU seconds used so far by all their processes; called every five seconds of silence.
  std::function<double()> cpu_s = nullptr;
};

/// Detects ranks that neither write nor compute.
class SilenceWatch {
 public:
  /// Returns how long the ranks have been silent and idle; none if they are not. `now` excludes time during which the
  /// launcher was stopped.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> look(TimePoint now, const NodeActivity& activity);
  /// Returns true once per silence, when it has lasted for kSaidAfter.
  [[nodiscard]] bool is_news(std::chrono::nanoseconds silence);

 private:
  void begin(TimePoint now);

  std::optional<std::uint64_t> output_;
  TimePoint since_{};
  TimePoint next_look_{};
  std::optional<double> cpu_s_;  // CPU time at since_; none if not yet read
  bool has_said_ = false;
};

/// A rank that silence_text() names.
struct SilentRank {
  int rank = 0;
  int pid = 0;
};

/// Returns "ranks 0, 1 on gpu-a have written nothing and used no processor time for 60 s: ...".
[[nodiscard]] std::string silence_text(const std::vector<SilentRank>& ranks, const std::string& host,
                                       std::chrono::nanoseconds silence);

}  // namespace lockstep::launch
