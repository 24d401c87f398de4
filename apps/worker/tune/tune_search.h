// SPDX-License-Identifier: Apache-2.0
// The search behind `lockstep tune` for the fastest settings: a function of measured times and nothing else.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/config.h"

namespace lockstep::worker {

using TuneValues = std::map<std::string, std::string>;  ///< by key: its value as YAML text

/// A setting to tune, and the values to try, in this order.
struct TuneKey {
  std::string key;
  std::vector<std::string> values = {};
  bool changes_bits = false;  ///< the choice changes bits of a run's result
  bool loads = false;         ///< it changes the loading of samples, which continues beside the steps
  /// True if it has an effect with these values; null: always.
  std::function<bool(const TuneValues&)> applies = nullptr;
};

/// Seconds of a step with the best values so far and with a candidate, measured one after the other.
struct StepPair {
  double best = 0;
  double candidate = 0;
};

/// The result of pairs about a candidate. The seconds are those of one pair, so that their quotient is the ratio.
struct TuneVerdict {
  double ratio = 1;    ///< candidate / best, of the pair in the middle of all
  double noise = 0;    ///< the ratios' median distance from it, as a standard deviation
  double best = 0;     ///< seconds of that pair's step with the best values so far
  double seconds = 0;  ///< seconds of its step with the candidate
  bool faster = false;
};

/// Faster means: by more than 2 % and by more than the noise.
[[nodiscard]] TuneVerdict judge(const std::vector<StepPair>& pairs);

struct TuneTrial {
  TuneKey key;
  std::string value;
  TuneVerdict verdict;
};

/// The measurements that the search asks for.
struct TuneMeasure {
  std::function<StepPair(const TuneValues& best, const TuneValues& candidate, const TuneKey& key)> pair;
  std::function<bool()> has_time;
  std::function<void(const TuneTrial& trial)> tried;
  /// True if the candidate computes exactly as the best does, so that a difference would be noise; null: never.
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

/// The machine and the job to tune for.
struct TunePlace {
  int cores = 1;     ///< cores of this machine
  int ranks = 1;     ///< on this machine
  int replicas = 1;  ///< replicas of the run
  bool cpu = true;
};

/// The tunable settings by their rows, if they have an effect there, with the values to try. One that a run cannot
/// change at resume changes its bits.
/// Throws: InternalError if a row is tunable and no value to try is known.
[[nodiscard]] std::vector<TuneKey> tune_keys(const TunePlace& place, const ConfigFields& rows);

}  // namespace lockstep::worker
