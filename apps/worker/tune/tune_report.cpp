// SPDX-License-Identifier: Apache-2.0
#include "worker/tune/tune_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/number.h"
#include "lockstep/base/text.h"

namespace lockstep::worker {
namespace {

/// A time in milliseconds with four significant digits.
std::string milliseconds(double seconds) {
  const double ms = 1e3 * seconds;
  return fmt::format("{:.{}f}", ms, ms >= 1000 ? 0 : ms >= 100 ? 1 : ms >= 10 ? 2 : 3);
}

/// The quotient of the times as they are printed, as in "0.93 x the time".
std::string share_of_time(double after, double before) {
  const auto printed = [](double seconds) { return text::parse_number(milliseconds(seconds)).value_or(0); };
  return fmt::format("{:.2f} x the time", printed(after) / printed(before));
}

/// A measurement as in "workers=1: 9.31 ms against 10.02 ms, 0.93 x the time (noise 0.8 %)".
std::string measured(const TuneTrial& trial) {
  const TuneVerdict& verdict = trial.verdict;
  return fmt::format("{}: {} ms against {} ms, {} (noise {:.1f} %)", trial.value, milliseconds(verdict.seconds),
                     milliseconds(verdict.best), share_of_time(verdict.seconds, verdict.best), 100 * verdict.noise);
}

}  // namespace

std::string trial_line(const TuneTrial& trial) {
  const TuneVerdict& verdict = trial.verdict;
  return fmt::format("  {:<24} {:>7} ms against {:>7} ms  {} (noise {:.1f} %)  {}", trial.key.key + "=" + trial.value,
                     milliseconds(verdict.seconds), milliseconds(verdict.best),
                     share_of_time(verdict.seconds, verdict.best), 100 * verdict.noise,
                     verdict.faster ? "taken" : "not taken");
}

std::string start_line(const TuneStart& start) {
  const char* processes = start.processes == 1 ? "process" : "processes";
  return fmt::format("{} on {} {}: {} ms per step with the given settings; budget {}", start.what, start.processes,
                     processes, milliseconds(start.seconds), text::duration(start.budget_s));
}

std::string gain_line(const TuneGain& gain) {
  return fmt::format("{} ms per step before, {} ms with these settings: {}", milliseconds(gain.before),
                     milliseconds(gain.after), share_of_time(gain.after, gain.before));
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
