// SPDX-License-Identifier: Apache-2.0
#include "worker/tune/tune_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/text.h"

namespace lockstep::worker {
namespace {

/// "workers=1: 0.93 x the time (noise 0.8 %)".
std::string measured(const TuneTrial& trial) {
  return fmt::format("{}: {:.2f} x the time (noise {:.1f} %)", trial.value, trial.verdict.ratio,
                     100 * trial.verdict.noise);
}

}  // namespace

std::string trial_line(const TuneTrial& trial) {
  return fmt::format("  {:<24} {:>7.1f} ms  {:.2f} x the time (noise {:.1f} %)  {}", trial.key.key + "=" + trial.value,
                     1e3 * trial.verdict.seconds, trial.verdict.ratio, 100 * trial.verdict.noise,
                     trial.verdict.faster ? "taken" : "not taken");
}

std::vector<std::string> bits_that_change(const TuneValues& start, const TuneResult& found) {
  std::vector<std::string> keys;
  for (const TuneTrial& trial : found.trials) {
    const std::string& key = trial.key.key;
    const bool known = std::find(keys.begin(), keys.end(), key) != keys.end();
    if (trial.key.changes_bits && found.best.at(key) != start.at(key) && !known) keys.push_back(key);
  }
  return keys;
}

std::string tuned_yaml(const std::vector<std::string>& head, const ConfigFields& fields, const TuneResult& found) {
  std::string out;
  for (const std::string& line : head) out += "# " + line + "\n";
  for (const auto& field : fields.fields()) {
    const bool given = field.origin != "default" || field.key == "recipe";
    if (!given || found.best.contains(field.key)) continue;
    out += fmt::format("{}: {}\n", field.key, ConfigFields::value_text(field.target));
  }
  for (const auto& [key, value] : found.best) {
    std::vector<std::string> others;
    for (const TuneTrial& trial : found.trials) {
      if (trial.key.key == key) others.push_back(measured(trial));
    }
    const std::string said = others.empty() ? "nothing else was tried" : text::join(others, "; ");
    out += fmt::format("{:<24} # {}\n", fmt::format("{}: {}", key, value), said);
  }
  return out;
}

}  // namespace lockstep::worker
