// SPDX-License-Identifier: Apache-2.0
// What `lockstep tune` says and writes.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/config.h"
#include "worker/tune/tune_search.h"

namespace lockstep::worker {

/// "  workers=1           0.93 x the time (noise 0.8 %)   taken".
[[nodiscard]] std::string trial_line(const TuneTrial& trial);

/// The keys of `found` that have another value than in `start` and change a run's bits.
[[nodiscard]] std::vector<std::string> bits_that_change(const TuneValues& start, const TuneResult& found);

/// A step's seconds with the settings as they were, and with those that were found.
struct TuneGain {
  double before = 0;
  double after = 0;
};

/// A settings file for `lockstep train`: `head` as comments, what `fields` have from elsewhere than their defaults,
/// then the tuned keys with what was measured for each.
[[nodiscard]] std::string tuned_yaml(const std::vector<std::string>& head, const ConfigFields& fields,
                                     const TuneResult& found);

}  // namespace lockstep::worker
