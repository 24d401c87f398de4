// SPDX-License-Identifier: Apache-2.0
#include "worker/tune/tune_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "worker/median.h"

namespace lockstep::worker {
namespace {

constexpr double kLeastGain = 0.02;
constexpr std::size_t kFewPairs = 3;   // number of pairs if they clearly agree
constexpr std::size_t kManyPairs = 7;  // otherwise
constexpr double kPlain = 0.1;

/// True if all pairs agree by a large margin.
bool is_plain(const std::vector<StepPair>& pairs) {
  const auto ratio = [](const StepPair& pair) { return pair.candidate / pair.best; };
  return std::all_of(pairs.begin(), pairs.end(), [&](const StepPair& pair) { return ratio(pair) > 1 + kPlain; }) ||
         std::all_of(pairs.begin(), pairs.end(), [&](const StepPair& pair) { return ratio(pair) < 1 - kPlain; });
}

std::vector<StepPair> compare(const TuneValues& best, const TuneValues& candidate, const TuneKey& key,
                              const TuneMeasure& measure) {
  std::vector<StepPair> pairs;
  while (pairs.size() < kManyPairs) {
    pairs.push_back(measure.pair(best, candidate, key));
    if (pairs.size() == kFewPairs && is_plain(pairs)) break;
    if (pairs.size() >= kFewPairs && !measure.has_time()) break;
  }
  return pairs;
}

std::vector<std::string> powers_of_two(int first, int last) {
  std::vector<std::string> values;
  for (int value = first; value < last; value *= 2) values.push_back(std::to_string(value));
  values.push_back(std::to_string(last));
  return values;
}

/// The keys and values to try, in order.
std::vector<TuneKey> candidates(const TunePlace& place) {
  const auto reduces = [replicas = place.replicas](const TuneValues&) { return replicas > 1; };
  const auto on_cpu = [cpu = place.cpu](const TuneValues&) { return cpu; };
  const auto loads_ahead = [](const TuneValues& values) { return values.at("workers") != "0"; };
  const int share = std::max(1, place.cores / place.ranks);
  std::vector<std::string> workers = {"0"};
  for (const std::string& count : powers_of_two(1, std::max(2, share))) workers.push_back(count);
  return {{.key = "channels_last", .values = {"true", "false"}},
          {.key = "fused_layers", .values = {"true", "false"}, .applies = on_cpu},
          {.key = "threads", .values = powers_of_two(1, share), .applies = on_cpu},
          {.key = "bucket_cap_mb", .values = {"5", "25", "100"}, .applies = reduces},
          {.key = "workers", .values = workers, .loads = true},
          {.key = "prefetch_factor", .values = {"2", "4"}, .loads = true, .applies = loads_ahead}};
}

}  // namespace

TuneVerdict judge(const std::vector<StepPair>& pairs) {
  const auto ratio_of = [](const StepPair& pair) { return pair.candidate / pair.best; };
  std::vector<StepPair> sorted = pairs;
  std::sort(sorted.begin(), sorted.end(),
            [&](const StepPair& a, const StepPair& b) { return ratio_of(a) < ratio_of(b); });
  const StepPair middle = sorted[sorted.size() / 2];
  TuneVerdict verdict{.ratio = ratio_of(middle), .best = middle.best, .seconds = middle.candidate};
  std::vector<double> ratios;
  for (const StepPair& pair : pairs) ratios.push_back(ratio_of(pair));
  for (double& ratio : ratios) ratio = std::abs(ratio - verdict.ratio);
  verdict.noise = 1.4826 * median(ratios);  // estimates the standard deviation if the noise is normally distributed
  verdict.faster = 1 - verdict.ratio > std::max(kLeastGain, verdict.noise);
  return verdict;
}

TuneResult tune(const std::vector<TuneKey>& keys, const TuneValues& start, const TuneMeasure& measure) {
  TuneResult result{.best = start};
  for (const TuneKey& key : keys) {
    if (key.applies && !key.applies(result.best)) continue;
    for (const std::string& value : key.values) {
      if (value == start.at(key.key)) continue;
      if (!measure.has_time()) {
        result.untried.push_back(key.key + "=" + value);
        continue;
      }
      TuneValues candidate = result.best;
      candidate[key.key] = value;
      if (measure.same && measure.same(result.best, candidate, key)) {
        result.same.push_back(key.key + "=" + value);
        continue;
      }
      TuneTrial trial{.key = key, .value = value, .verdict = judge(compare(result.best, candidate, key, measure))};
      measure.tried(trial);
      if (trial.verdict.faster) result.best = std::move(candidate);
      result.trials.push_back(std::move(trial));
    }
  }
  return result;
}

std::vector<TuneKey> tune_keys(const TunePlace& place, const ConfigFields& rows) {
  std::vector<TuneKey> keys = candidates(place);
  const auto row_of = [&rows](const std::string& key) {
    return std::find_if(rows.fields().begin(), rows.fields().end(),
                        [&](const ConfigFields::Field& field) { return field.key == key && field.tune; });
  };
  std::erase_if(keys, [&](const TuneKey& key) { return row_of(key.key) == rows.fields().end(); });
  for (TuneKey& key : keys) key.changes_bits = row_of(key.key)->resume != OnResume::kFree;
  for (const auto& field : rows.fields()) {
    const auto is_it = [&](const TuneKey& key) { return key.key == field.key; };
    if (field.tune && std::none_of(keys.begin(), keys.end(), is_it)) {
      throw InternalError(fmt::format("{} may be tuned, but there is no value to try for it", field.key));
    }
  }
  return keys;
}

}  // namespace lockstep::worker
