// SPDX-License-Identifier: Apache-2.0
// The search behind `lockstep tune`: which settings are the fastest, as a function of measured times and nothing else.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/config.h"

namespace lockstep::worker {

using TuneValues = std::map<std::string, std::string>;  ///< by key: its value as YAML text

/// A setting to be found, and what is tried for it in this order.
struct TuneKey {
  std::string key;
  std::vector<std::string> values = {};
  bool changes_bits = false;  ///< the choice changes bits of a run's result
  bool loads = false;         ///< it changes how samples are loaded, which goes on beside the steps
  /// Whether it does anything with these values; null: always.
  std::function<bool(const TuneValues&)> applies = nullptr;
};

/// Seconds of a step with the best values so far and with a candidate, measured one after the other.
struct StepPair {
  double best = 0;
  double candidate = 0;
};

/// What pairs say of a candidate. The figures are those of one pair, so that whoever divides them gets the ratio.
struct TuneVerdict {
  double ratio = 1;    ///< candidate / best, of the pair in the middle of all
  double noise = 0;    ///< the ratios' median distance from it, as a standard deviation
  double best = 0;     ///< seconds of that pair's step with the best values so far
  double seconds = 0;  ///< seconds of its step with the candidate
  bool faster = false;
};

/// Faster: by more than 2 % and by more than the noise.
[[nodiscard]] TuneVerdict judge(const std::vector<StepPair>& pairs);

struct TuneTrial {
  TuneKey key;
  std::string value;
  TuneVerdict verdict;
};

/// What the search asks of the world.
struct TuneMeasure {
  std::function<StepPair(const TuneValues& best, const TuneValues& candidate, const TuneKey& key)> pair;
  std::function<bool()> has_time;
  std::function<void(const TuneTrial& trial)> tried;
  /// The candidate computes exactly as the best does, so that a difference would be noise; null: never.
  std::function<bool(const TuneValues& best, const TuneValues& candidate, const TuneKey& key)> same = nullptr;
};

struct TuneResult {
  TuneValues best;
  std::vector<TuneTrial> trials = {};
  std::vector<std::string> untried = {};  ///< "key=value" for which there was no time
  std::vector<std::string> same = {};     ///< "key=value" that changes nothing here
};

/// One key after the other, each value against the best so far; a candidate that is faster becomes the best.
[[nodiscard]] TuneResult tune(const std::vector<TuneKey>& keys, const TuneValues& start, const TuneMeasure& measure);

/// What can be tuned, and where.
struct TunePlace {
  int cores = 1;     ///< cores of this machine
  int ranks = 1;     ///< on this machine
  int replicas = 1;  ///< replicas of the run
  bool cpu = true;
};

/// The settings whose rows say that they may be tuned, where they do something there, with the values to try. One that
/// a run could not change at resume changes its bits.
/// Throws: InternalError where a row may be tuned and nothing is known to try.
[[nodiscard]] std::vector<TuneKey> tune_keys(const TunePlace& place, const ConfigFields& rows);

}  // namespace lockstep::worker
