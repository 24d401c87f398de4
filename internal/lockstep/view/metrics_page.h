// SPDX-License-Identifier: Apache-2.0
// The figures of a run in Prometheus' format. Pure function.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::view {

/// The figures of a run so far; an unknown figure is left out.
struct RunFigures {
  std::string recipe;                                        ///< name of the recipe
  std::string run;                                           ///< the name of its folder
  std::int64_t world_size = 1;                               ///< number of ranks
  std::int64_t restarts = 0;                                 ///< how often the ranks were started again
  std::int64_t step = 0;                                     ///< steps done
  std::int64_t total_steps = 0;                              ///< steps of the whole run; 0: unknown
  std::int64_t epoch = 0;                                    ///< the epoch under way, from 1; 0: none yet
  std::int64_t skipped = 0;                                  ///< steps that were left out
  std::int64_t bad_samples = 0;                              ///< samples that were left out
  std::optional<double> loss = {};                           ///< loss of the last logged step
  std::optional<double> learning_rate = {};                  ///< that of the last step
  std::optional<double> images_per_s = {};                   ///< speed over all ranks
  std::optional<double> loss_scale = {};                     ///< with fp16
  std::optional<double> data_wait = {};                      ///< a share, of the last epoch
  std::optional<std::int64_t> memory_peak = {};              ///< bytes, the maximum of any rank
  std::vector<std::pair<std::string, double>> losses = {};   ///< the parts of the loss
  std::vector<std::pair<std::string, double>> metrics = {};  ///< metrics of the last evaluation
};

/// Returns the page in Prometheus' text format, version 0.0.4. All names begin with "lockstep_".
[[nodiscard]] std::string metrics_page(const RunFigures& figures);

}  // namespace lockstep::view

#pragma GCC visibility pop
