// SPDX-License-Identifier: Apache-2.0
// The lines and the file of `lockstep tune`.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/config.h"
#include "worker/tune/tune_search.h"

namespace lockstep::worker {

/// The line of a trial: "  workers=1    9.310 ms against   10.02 ms  0.93 x the time (noise 0.8 %)  taken".
[[nodiscard]] std::string trial_line(const TuneTrial& trial);

/// The start of a search.
struct TuneStart {
  std::string what;  ///< the recipe
  int processes = 1;
  double seconds = 0;  ///< time of a step with the given settings
  double budget_s = 0;
};

/// The first line: "captcha:conv3 on 2 processes: 10.02 ms per step with the given settings; budget 2:00".
[[nodiscard]] std::string start_line(const TuneStart& start);

/// The keys whose values in `found` differ from `start` and change the bits of a run's results.
[[nodiscard]] std::vector<std::string> bits_that_change(const TuneValues& start, const TuneResult& found);

/// The time of a step in seconds, with the settings given and with the settings found.
struct TuneGain {
  double before = 0;
  double after = 0;
};

/// The last line: "10.02 ms per step before, 9.310 ms with these settings: 0.93 x the time".
[[nodiscard]] std::string gain_line(const TuneGain& gain);

/// A settings file for `lockstep train`: `head` as comments, then the `fields` that differ from their defaults, then
/// the tuned keys with their measurements.
[[nodiscard]] std::string tuned_yaml(const std::vector<std::string>& head, const ConfigFields& fields,
                                     const TuneResult& found);

}  // namespace lockstep::worker
