// SPDX-License-Identifier: Apache-2.0
// The search of `lockstep tune` for the fastest settings: a pure function of measured times.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/config.h"

namespace lockstep::worker {

using TuneValues = std::map<std::string, std::string>;  ///< values as YAML text, by key

/// A setting to tune, and the values to try, in the order to try them.
struct TuneKey {
  std::string key;
  std::vector<std::string> values = {};
  bool changes_bits = false;  ///< true: the choice changes the bits of a run's results
  bool loads = false;         ///< true: it affects the loading of samples, which continues during the steps
  /// True if the setting has an effect with these values; null: always true.
  std::function<bool(const TuneValues&)> applies = nullptr;
};

/// The time of a step in seconds, with the best values so far and with a candidate. The two are measured one after the
/// other.
struct StepPair {
  double best = 0;
  double candidate = 0;
};

/// The verdict on a candidate, from all its pairs. `best` and `seconds` come from the same pair, so that their quotient
/// is the ratio.
struct TuneVerdict {
  double ratio = 1;    ///< candidate / best in the median pair
  double noise = 0;    ///< median distance of the ratios from `ratio`, scaled to a standard deviation
  double best = 0;     ///< seconds of a step with the best values so far, in that pair
  double seconds = 0;  ///< seconds of a step with the candidate, in that pair
  bool faster = false;
};

/// A candidate is faster if it saves more than 2 % and more than the noise.
[[nodiscard]] TuneVerdict judge(const std::vector<StepPair>& pairs);

struct TuneTrial {
  TuneKey key;
  std::string value;
  TuneVerdict verdict;
};

/// The callbacks that the search uses to measure and to report.
struct TuneMeasure {
  std::function<StepPair(const TuneValues& best, const TuneValues& candidate, const TuneKey& key)> pair;
  std::function<bool()> has_time;
  std::function<void(const TuneTrial& trial)> tried;
  /// True if the candidate computes exactly as the best values do, so that a difference would be noise; null: never.
  std::function<bool(const TuneValues& best, const TuneValues& candidate, const TuneKey& key)> same = nullptr;
};

struct TuneResult {
  TuneValues best;
  std::vector<TuneTrial> trials = {};
  std::vector<std::string> untried = {};  ///< values ("key=value") for which there was no time
  std::vector<std::string> same = {};     ///< values ("key=value") that change nothing here
};

/// Tries the values of one key after another against the best values so far; a faster candidate becomes the best.
[[nodiscard]] TuneResult tune(const std::vector<TuneKey>& keys, const TuneValues& start, const TuneMeasure& measure);

/// The machine and the job to tune for.
struct TunePlace {
  int cores = 1;     ///< cores for these ranks; the same number on every rank of the job
  int ranks = 1;     ///< ranks that share the cores
  int replicas = 1;  ///< replicas of the run
  bool cpu = true;
};

/// The settings that are marked as tunable and that have an effect in this place, with the values to try. A setting
/// that must not change on resume counts as changing the bits.
/// Throws: InternalError if no value to try is known for a tunable row.
[[nodiscard]] std::vector<TuneKey> tune_keys(const TunePlace& place, const ConfigFields& rows);

}  // namespace lockstep::worker
