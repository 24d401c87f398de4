// SPDX-License-Identifier: Apache-2.0
// The figures of a run as Prometheus reads them. Pure function.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::view {

/// What is known of a run by now; an unknown figure is left out.
struct RunFigures {
  std::string recipe;
  std::string run;  ///< the name of its folder
  std::int64_t world_size = 1;
  std::int64_t restarts = 0;
  std::int64_t step = 0;
  std::int64_t total_steps = 0;
  std::int64_t epoch = 0;  ///< the one that is trained, from 1; 0: none yet
  std::int64_t skipped = 0;
  std::int64_t bad_samples = 0;
  std::optional<double> loss = {};
  std::optional<double> learning_rate = {};
  std::optional<double> images_per_s = {};
  std::optional<double> loss_scale = {};
  std::optional<double> data_wait = {};                      ///< a share, of the last epoch
  std::optional<std::int64_t> memory_peak = {};              ///< bytes, the maximum of any rank
  std::vector<std::pair<std::string, double>> losses = {};   ///< the parts of the loss
  std::vector<std::pair<std::string, double>> metrics = {};  ///< of the last evaluation
};

/// Returns the page in Prometheus' text format, version 0.0.4. All names begin with "lockstep_".
[[nodiscard]] std::string metrics_page(const RunFigures& figures);

}  // namespace lockstep::view

#pragma GCC visibility pop
